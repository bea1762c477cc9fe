# An overlay port: it builds the sources that it lies in. A port of a registry would begin with
# vcpkg_from_git(...) instead.
cmake_path(SET SOURCE_PATH NORMALIZE "${CMAKE_CURRENT_LIST_DIR}/../..")

if("mpi" IN_LIST FEATURES)
  set(mpi ON)
else()
  set(mpi OFF)
endif()
vcpkg_cmake_configure(SOURCE_PATH "${SOURCE_PATH}"
                      OPTIONS -DTERN_TESTS=OFF -DTERN_APPS=OFF -DTERN_BENCH=OFF -DTERN_MPI=${mpi})
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH lib/cmake/tern)
vcpkg_fixup_pkgconfig()
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share"
                    "${CURRENT_PACKAGES_DIR}/share/doc")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/packaging/copyright")
