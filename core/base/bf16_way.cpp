// Detects the processor's bf16 instructions by CPUID (and asks Linux for AMX's tile registers), and
// keeps the way that is in use.
#include "tern/core/base/bf16_way.h"

#include <atomic>

#include "tern/core/base/cpu.h"
#include "tern/core/base/error.h"
#include "tern/core/base/max_level.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace tern {
namespace {

#if defined(__x86_64__)
bool has_avx512_bf16() {
  static const bool has = [] {
    unsigned a = 0, b = 0, c = 0, d = 0;
    return detail::max_level() >= detail::MaxLevel::avx512_bf16 &&
           __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & (1u << 5));
  }();
  return has;
}

/// Intel's processors start a VDPBF16PS every second cycle, and two multiply-adds in each. They are
/// meant to use AMX, which a virtual machine may hide.
bool made_by_intel() {
  static const bool is = [] {
    unsigned a = 0, b = 0, c = 0, d = 0;
    return __get_cpuid(0, &a, &b, &c, &d) && b == signature_INTEL_ebx;
  }();
  return is;
}

/// Linux enables the tile registers only for processes that ask (ARCH_REQ_XCOMP_PERM).
bool has_amx() {
  static const bool has = [] {
    unsigned a = 0, b = 0, c = 0, d = 0;
    if (detail::max_level() < detail::MaxLevel::amx) return false;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return false;
    if (!(d & (1u << 22)) || !(d & (1u << 24))) return false;  // AMX-BF16, AMX-TILE
#if defined(__linux__)
    constexpr long kRequest = 0x1023, kTileData = 18;
    return syscall(SYS_arch_prctl, kRequest, kTileData) == 0;
#else
    return false;
#endif
  }();
  return has;
}

#else
bool made_by_intel() { return false; }
#endif

constexpr int kFastest = -1;
std::atomic<int> chosen{kFastest};

bool has(Bf16Way way) {
#if defined(__x86_64__)
  const VectorLevel level = tern::detail::vector_level;
  switch (way) {
    case Bf16Way::portable:
      return true;
    case Bf16Way::neon:
      return false;
    case Bf16Way::avx2:
      return level >= VectorLevel::kAvx2;
    case Bf16Way::avx512:
      return level >= VectorLevel::kAvx512;
    case Bf16Way::avx512_bf16:
      return level >= VectorLevel::kAvx512 && has_avx512_bf16();
    case Bf16Way::amx:
      return level >= VectorLevel::kAvx512 && has_avx512_bf16() && has_amx();
  }
  fail_unhandled("Bf16Way", way);
#elif defined(__aarch64__)
  return way <= Bf16Way::neon;
#else
  return way == Bf16Way::portable;
#endif
}

Bf16Way chosen_or(Bf16Way usual) {
  const int way = chosen.load(std::memory_order_relaxed);
  return way == kFastest ? usual : static_cast<Bf16Way>(way);
}

}  // namespace

std::string to_string(Bf16Way way) {
  switch (way) {
    case Bf16Way::portable:
      return "plain code";
    case Bf16Way::neon:
      return "NEON";
    case Bf16Way::avx2:
      return "AVX2+FMA";
    case Bf16Way::avx512:
      return "AVX-512";
    case Bf16Way::avx512_bf16:
      return "AVX512_BF16";
    case Bf16Way::amx:
      return "AMX";
  }
  fail_unhandled("Bf16Way", way);
}

std::vector<Bf16Way> bf16_ways() {
  const Bf16Way slower = made_by_intel() ? Bf16Way::avx512_bf16 : Bf16Way::avx512;
  const Bf16Way faster = made_by_intel() ? Bf16Way::avx512 : Bf16Way::avx512_bf16;
  std::vector<Bf16Way> ways;
  for (Bf16Way way :
       {Bf16Way::portable, Bf16Way::neon, Bf16Way::avx2, slower, faster, Bf16Way::amx})
    if (has(way)) ways.push_back(way);
  return ways;
}

Bf16Way bf16_way() {
  if (has(Bf16Way::avx512) && made_by_intel() && !has(Bf16Way::amx))
    return chosen_or(Bf16Way::avx512);
  return bf16_packing_way();
}

Bf16Way bf16_packing_way() {
  for (Bf16Way best :
       {Bf16Way::amx, Bf16Way::avx512_bf16, Bf16Way::avx512, Bf16Way::avx2, Bf16Way::neon})
    if (has(best)) return chosen_or(best);
  return chosen_or(Bf16Way::portable);
}

Bf16WayScope::Bf16WayScope(Bf16Way way) : before_(chosen.load()) {
  check(has(way), "this processor does not compute products by {}", to_string(way));
  chosen.store(static_cast<int>(way));
}

Bf16WayScope::~Bf16WayScope() { chosen.store(before_); }

std::string bf16_products() {
  const Bf16Way way = bf16_way();
  const bool slow = way < Bf16Way::avx512_bf16 || (way == Bf16Way::avx512_bf16 && made_by_intel());
  return to_string(way) + (slow ? ", slower here than f32" : "");
}

}  // namespace tern
