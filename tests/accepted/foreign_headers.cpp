// Compiles: tern after headers of C, the system, curses and X11, which define macros.
// clang-format off
#include <complex.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/param.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>
#if __has_include(<curses.h>)
#include <curses.h>
#endif
#if __has_include(<X11/Xlib.h>)
#include <X11/Xlib.h>
#endif

#include "tern/tern.h"
// clang-format on

int main() {
  tern::Rng rng(0);
  return tern::randn({2}, rng).numel() == 2 ? 0 : 1;
}
