// What a progress bar looks like on a terminal. Inside of train only.
#pragma once

#include <cstdint>
#include <string>

namespace tern::train {

/// "LABEL [###.....]  37%  NOTE", within `columns`: where the terminal is narrower than all of it,
/// the bar gives way, and then the end of the note; a line that wraps would stay on the screen.
/// 0 columns: nobody knows how many there are. `share` is in [0, 1].
std::string progress_line(const std::string& label, double share, const std::string& note,
                          int64_t columns);

}  // namespace tern::train
