// The state of a training run in one file: named tensors and texts, whole or not at all.
#pragma once

#include <string>

#include "tern/core/io/safetensors.h"
#include "tern/core/io/state.h"

namespace tern::apps {

/// Writes a safetensors file with a checksum of every byte of tensors and metadata, atomically.
void save_checkpoint(const std::string& path, SafeTensors content);

/// Reads it back; IoError if the file is truncated, damaged or not such a checkpoint.
SafeTensors load_checkpoint(const std::string& path);

/// Puts `prefix` before the names; the other way round: those with the prefix, without it.
void append_prefixed(NamedTensors& to, const std::string& prefix, const NamedTensors& from);
NamedTensors take_prefixed(const SafeTensors& content, const std::string& prefix);

/// Metadata entry `key`; IoError naming `path` if there is none.
const std::string& metadata(const SafeTensors& content, const std::string& key,
                            const std::string& path);

}  // namespace tern::apps
