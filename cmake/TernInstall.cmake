# Installs the libraries, their public headers, and what find_package(tern) and pkg-config read.
# apps/CMakeLists.txt installs the program.
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
install(TARGETS ${libraries} tern_data tern_vector_code tern EXPORT ternTargets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES tern.h version.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tern)
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
# The licences of tern and of what is compiled into it, where Debian's packages have them.
install(FILES packaging/copyright DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/libtern-dev)
if(TERN_APPS)
  install(FILES packaging/copyright DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/tern
          COMPONENT programs)
endif()

install(EXPORT ternTargets NAMESPACE tern:: DESTINATION ${config_dir})
set(components ${libraries} vector_code data tern)
list(REMOVE_ITEM components tern_shared)
list(TRANSFORM components REPLACE "^tern_|_shared$" "")
list(JOIN components ", " components)
configure_package_config_file(cmake/ternConfig.cmake.in ${CMAKE_CURRENT_BINARY_DIR}/ternConfig.cmake
                              INSTALL_DESTINATION ${config_dir})
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/ternConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/ternConfig.cmake
              ${CMAKE_CURRENT_BINARY_DIR}/ternConfigVersion.cmake cmake/FindCBLAS.cmake
              cmake/Findutf8proc.cmake
        DESTINATION ${config_dir})

# pkg-config finds the prefix from where tern.pc lies, since `cmake --install --prefix` chooses it.
foreach(folder LIBDIR INCLUDEDIR)
  set(pc_${folder} ${CMAKE_INSTALL_${folder}})
  cmake_path(ABSOLUTE_PATH pc_${folder} BASE_DIRECTORY "\${prefix}")
endforeach()
file(RELATIVE_PATH pc_up /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
set(pc_requires fmt)
set(pc_libs -ltern)
if(NOT BUILD_SHARED_LIBS)
  set(pc_requires fmt zlib libutf8proc libpng libjpeg)
  list(TRANSFORM libraries PREPEND -l OUTPUT_VARIABLE archives)
  get_target_property(blas CBLAS::CBLAS INTERFACE_LINK_LIBRARIES)
  set(pc_libs -Wl,--gc-sections -Wl,--start-group ${archives} -Wl,--end-group ${blas} -fopenmp
      -ldl)
  if(TERN_WITH_MPI)
    list(APPEND pc_libs ${MPI_CXX_LIBRARIES})
  endif()
endif()
list(JOIN pc_requires " " pc_requires)
list(JOIN pc_libs " " pc_libs)
configure_file(cmake/tern.pc.in tern.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/tern.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

if(PROJECT_IS_TOP_LEVEL)
  add_custom_target(uninstall COMMAND ${CMAKE_COMMAND} -DBUILD=${PROJECT_BINARY_DIR}
                                      -P ${PROJECT_SOURCE_DIR}/cmake/uninstall.cmake)
  include(packaging/debian.cmake)
endif()
