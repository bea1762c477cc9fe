# The packages tern (the program) and libtern-dev (static libraries and headers) by CPack; see
# packaging/README.md.
if(BUILD_SHARED_LIBS)
  return()
endif()
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME tern)
set(CPACK_COMPONENTS_ALL libraries)
if(TERN_APPS)
  list(APPEND CPACK_COMPONENTS_ALL programs)
endif()
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_STRIP_FILES ON)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
    OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_CURRENT_LIST_DIR}/debian_files.cmake)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
if(NOT CPACK_PACKAGE_CONTACT)
  set(CPACK_PACKAGE_CONTACT "tern <tern@example.org>")
endif()

set(CPACK_DEBIAN_PROGRAMS_PACKAGE_NAME tern)
set(CPACK_DEBIAN_PROGRAMS_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PROGRAMS_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PROGRAMS_DESCRIPTION "deep learning on the CPU (program)
Trains and runs classifiers of pictures, translation models, language models
and Neural Turing Machines.")
set(CPACK_DEBIAN_LIBRARIES_PACKAGE_NAME libtern-dev)
set(CPACK_DEBIAN_LIBRARIES_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_LIBRARIES_PACKAGE_DEPENDS "libopenblas-openmp-dev, libfmt-dev, zlib1g-dev, \
libutf8proc-dev, libpng-dev, libjpeg-dev")
if(TERN_WITH_MPI)
  string(APPEND CPACK_DEBIAN_LIBRARIES_PACKAGE_DEPENDS ", libopenmpi-dev")
endif()
set(CPACK_DEBIAN_LIBRARIES_DESCRIPTION "deep learning on the CPU (development files)
Static libraries and headers of tern, a deep-learning framework in C++20, with
their CMake package and tern.pc.")
include(CPack)
