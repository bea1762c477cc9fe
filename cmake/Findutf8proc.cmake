# Finds utf8proc (Unicode normalisation, case, categories) and defines utf8proc::utf8proc.
# -DUTF8PROC_LIBRARY=... -DUTF8PROC_INCLUDE_DIR=... choose by hand.
find_package(PkgConfig QUIET)
if(PkgConfig_FOUND)
  pkg_check_modules(_utf8proc QUIET libutf8proc)
endif()
find_path(UTF8PROC_INCLUDE_DIR utf8proc.h HINTS ${_utf8proc_INCLUDE_DIRS})
find_library(UTF8PROC_LIBRARY utf8proc HINTS ${_utf8proc_LIBRARY_DIRS})

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(utf8proc REQUIRED_VARS UTF8PROC_LIBRARY UTF8PROC_INCLUDE_DIR)
mark_as_advanced(UTF8PROC_LIBRARY UTF8PROC_INCLUDE_DIR)

if(utf8proc_FOUND AND NOT TARGET utf8proc::utf8proc)
  add_library(utf8proc::utf8proc UNKNOWN IMPORTED)
  set_target_properties(utf8proc::utf8proc PROPERTIES
                        IMPORTED_LOCATION "${UTF8PROC_LIBRARY}"
                        INTERFACE_INCLUDE_DIRECTORIES "${UTF8PROC_INCLUDE_DIR}")
endif()
