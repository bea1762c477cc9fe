# Installs the libraries, their public headers, and what find_package(tern) reads. apps/CMakeLists.txt
# installs the program.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/tern)
get_property(libraries GLOBAL PROPERTY TERN_LIBRARIES)
add_custom_target(tern_libraries DEPENDS ${libraries})
# What `./run install` builds and installs.
add_custom_target(tern_installed DEPENDS ${libraries})
if(TARGET tern_generated)
  add_dependencies(tern_installed tern_generated)
endif()
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME libraries)
install(TARGETS ${libraries} tern_data tern_vector_code tern
        EXPORT ternTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES tern.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tern)
# Headers that are not for users say so in their first lines: "Inside of core only."
file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} core/*.h nn/*.h optim/*.h
     data/*.h train/*.h models/*.h decode/*.h pretrained/*.h dist/*.h)
foreach(header ${headers})
  file(STRINGS ${header} internal REGEX "^// .*Inside of [a-z]+ only" LIMIT_COUNT 1)
  if(NOT internal)
    cmake_path(GET header PARENT_PATH folder)
    install(FILES ${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tern/${folder})
  endif()
endforeach()

install(EXPORT ternTargets NAMESPACE tern:: DESTINATION ${config_dir})
configure_package_config_file(cmake/ternConfig.cmake.in ${CMAKE_CURRENT_BINARY_DIR}/ternConfig.cmake
                              INSTALL_DESTINATION ${config_dir})
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/ternConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/ternConfig.cmake
              ${CMAKE_CURRENT_BINARY_DIR}/ternConfigVersion.cmake cmake/FindCBLAS.cmake
              cmake/Findutf8proc.cmake
        DESTINATION ${config_dir})
