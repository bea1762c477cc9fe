# Finds a BLAS with the C interface, and LAPACK, and defines the target CBLAS::CBLAS.
#
# Several BLAS may be installed side by side, and what `-lblas` means is then the system's choice.
# tern wants OpenBLAS built with OpenMP, which can be kept to one thread in each calling thread. The order is:
#   1. OpenBLAS below CMAKE_PREFIX_PATH or CMAKE_LIBRARY_PATH, as of vcpkg and Conan; then OpenBLAS's
#      OpenMP build, where Debian (openblas-openmp/) and Fedora (libopenblaso) put it,
#   2. what pkg-config calls openblas, or a library of that name,
#   3. whatever CMake's FindBLAS finds, if it has cblas_sgemm; BLA_VENDOR goes straight to this one.
# -DCBLAS_LIBRARY=... -DCBLAS_INCLUDE_DIR=... choose by hand.

if(NOT CBLAS_LIBRARY AND NOT BLA_VENDOR)
  set(_cblas_openmp /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/openblas-openmp)
  find_library(CBLAS_LIBRARY openblas NO_CMAKE_SYSTEM_PATH NO_SYSTEM_ENVIRONMENT_PATH)
  find_library(CBLAS_LIBRARY openblas PATHS ${_cblas_openmp} NO_DEFAULT_PATH)
  find_library(CBLAS_LIBRARY openblaso)
  find_package(PkgConfig QUIET)
  if(PkgConfig_FOUND)
    pkg_check_modules(_openblas QUIET openblas)
  endif()
  find_library(CBLAS_LIBRARY openblas HINTS ${_openblas_LIBRARY_DIRS}
               PATHS /opt/homebrew/opt/openblas/lib /usr/local/opt/openblas/lib)
endif()
if(NOT CBLAS_LIBRARY)
  find_package(BLAS QUIET)
  if(BLAS_FOUND)
    set(CBLAS_LIBRARY ${BLAS_LIBRARIES} CACHE STRING "BLAS with the C interface" FORCE)
  endif()
endif()

# The header beside the library first: each BLAS brings its own.
if(CBLAS_LIBRARY)
  list(GET CBLAS_LIBRARY 0 _cblas_first)
  get_filename_component(_cblas_dir "${_cblas_first}" DIRECTORY)
  get_filename_component(_cblas_name "${_cblas_dir}" NAME)
  find_path(CBLAS_INCLUDE_DIR cblas.h
            HINTS /usr/include/${CMAKE_LIBRARY_ARCHITECTURE}/${_cblas_name} ${_openblas_INCLUDE_DIRS}
                  ${_cblas_dir}/../include
            PATH_SUFFIXES openblas)
endif()

if(CBLAS_LIBRARY AND CBLAS_INCLUDE_DIR)
  include(CheckCXXSourceCompiles)
  include(CMakePushCheckState)
  cmake_push_check_state(RESET)
  set(CMAKE_REQUIRED_INCLUDES ${CBLAS_INCLUDE_DIR})
  set(CMAKE_REQUIRED_LIBRARIES ${CBLAS_LIBRARY})
  set(CMAKE_REQUIRED_QUIET ON)
  check_cxx_source_compiles("
    extern \"C\" {
    #include <cblas.h>
    }
    int main() { float x = 1; return static_cast<int>(cblas_sdot(1, &x, 1, &x, 1)) - 1; }
    " CBLAS_WORKS)
  cmake_pop_check_state()
endif()

# LAPACK: OpenBLAS brings it; beside another BLAS it is a library of its own.
if(CBLAS_WORKS)
  include(CheckFunctionExists)
  cmake_push_check_state(RESET)
  set(CMAKE_REQUIRED_LIBRARIES ${CBLAS_LIBRARY})
  set(CMAKE_REQUIRED_QUIET ON)
  check_function_exists(dgesdd_ CBLAS_HAS_LAPACK)
  cmake_pop_check_state()
  if(NOT CBLAS_HAS_LAPACK)
    find_package(LAPACK QUIET)
    if(LAPACK_FOUND)
      set(CBLAS_LAPACK ${LAPACK_LIBRARIES})
    else()
      message(STATUS "CBLAS: ${CBLAS_LIBRARY} has no LAPACK, and none was found; install OpenBLAS")
      set(CBLAS_WORKS FALSE)
    endif()
  endif()
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(CBLAS REQUIRED_VARS CBLAS_LIBRARY CBLAS_INCLUDE_DIR CBLAS_WORKS)
mark_as_advanced(CBLAS_LIBRARY CBLAS_INCLUDE_DIR)

if(CBLAS_FOUND AND NOT TARGET CBLAS::CBLAS)
  add_library(CBLAS::CBLAS INTERFACE IMPORTED)
  target_link_libraries(CBLAS::CBLAS INTERFACE ${CBLAS_LAPACK} ${CBLAS_LIBRARY})
  target_include_directories(CBLAS::CBLAS INTERFACE ${CBLAS_INCLUDE_DIR})
endif()
