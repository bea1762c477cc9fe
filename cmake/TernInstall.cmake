# Installs the libraries, their public headers and what find_package(tern) reads.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/tern)
install(TARGETS tern_core tern_nn tern_optim tern_data tern_models tern EXPORT ternTargets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES tern.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tern)
install(DIRECTORY core nn optim data models DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tern
        FILES_MATCHING PATTERN "*.h" PATTERN "kernels" EXCLUDE PATTERN "ops" EXCLUDE
                       PATTERN "detail" EXCLUDE)

install(EXPORT ternTargets NAMESPACE tern:: DESTINATION ${config_dir})
configure_package_config_file(cmake/ternConfig.cmake.in ${CMAKE_CURRENT_BINARY_DIR}/ternConfig.cmake
                              INSTALL_DESTINATION ${config_dir})
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/ternConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/ternConfig.cmake
              ${CMAKE_CURRENT_BINARY_DIR}/ternConfigVersion.cmake cmake/FindCBLAS.cmake
              cmake/Findutf8proc.cmake
        DESTINATION ${config_dir})
