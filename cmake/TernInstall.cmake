# Installs the libraries, their public headers, what find_package(tern) reads, and the programs with
# their manual pages and completion for shells.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/tern)
get_property(libraries GLOBAL PROPERTY TERN_LIBRARIES)
add_custom_target(tern_libraries DEPENDS ${libraries})
# What `./run install` builds and installs.
get_property(programs GLOBAL PROPERTY TERN_PROGRAMS)
add_custom_target(tern_installed DEPENDS ${libraries})
foreach(program ${programs})
  add_dependencies(tern_installed ${program} ${program}_generated)
endforeach()
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME libraries)
install(TARGETS ${libraries} tern_data tern_vector_code tern
        EXPORT ternTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES tern.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tern)
# Headers that are not for users say so in their first lines: "Inside of core only."
file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} core/*.h nn/*.h onnx/*.h optim/*.h
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

set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME programs)
foreach(program ${programs})
  set(share ${CMAKE_CURRENT_BINARY_DIR}/apps/share)
  get_target_property(name ${program} OUTPUT_NAME)
  install(TARGETS ${program} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  install(FILES ${share}/${name}.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
  install(FILES ${share}/${name}.bash RENAME ${name}
          DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
  install(FILES ${share}/_${name} DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
endforeach()
