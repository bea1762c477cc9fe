# Tests that tern.pc of the installed tern, in CMAKE_PREFIX_PATH, is enough for README's program.
find_program(PKG_CONFIG pkg-config)
if(NOT PKG_CONFIG)
  message(FATAL_ERROR "pkg-config is missing")
endif()
file(GLOB_RECURSE pc ${CMAKE_PREFIX_PATH}/*/tern.pc)
cmake_path(GET pc PARENT_PATH pc_folder)
cmake_path(GET pc_folder PARENT_PATH library_folder)
add_test(NAME pkg_config WORKING_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}
         COMMAND sh -c "$0 -std=c++20 ${CMAKE_CXX_FLAGS} $1 $(${PKG_CONFIG} --cflags --libs tern) \
                        -o by_pkg_config && ./by_pkg_config"
                 ${CMAKE_CXX_COMPILER} ${CMAKE_CURRENT_LIST_DIR}/../readme/circle.cpp)
set_tests_properties(pkg_config PROPERTIES ENVIRONMENT
                     "PKG_CONFIG_PATH=${pc_folder};LD_LIBRARY_PATH=${library_folder}")
