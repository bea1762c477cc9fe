# Finds kissfft's C++ header (fast Fourier transforms, BSD-3-Clause; Debian: libkissfft-dev) and
# defines KissFFT::KissFFT. -DKISSFFT_INCLUDE_DIR=... chooses by hand.
find_path(KISSFFT_INCLUDE_DIR kissfft.hh PATH_SUFFIXES kissfft)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(KissFFT REQUIRED_VARS KISSFFT_INCLUDE_DIR)
mark_as_advanced(KISSFFT_INCLUDE_DIR)

if(KissFFT_FOUND AND NOT TARGET KissFFT::KissFFT)
  add_library(KissFFT::KissFFT INTERFACE IMPORTED)
  set_target_properties(KissFFT::KissFFT PROPERTIES
                        INTERFACE_INCLUDE_DIRECTORIES "${KISSFFT_INCLUDE_DIR}")
endif()
