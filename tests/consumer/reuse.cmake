# Lets add_subdirectory(tern) in a foreign project be built in seconds: an object of which the
# command is, word for word and but for folders, the one that tern's own build ran, is copied from
# there; any other is compiled. What could go wrong in a foreign project goes wrong still.
#
# A CMAKE_PROJECT_INCLUDE file that makes itself the compiler's launcher:
#   cmake -DCMAKE_PROJECT_INCLUDE=reuse.cmake -DTERN_BUILD=<build folder of tern> ...
# The foreign project calls tern's binary folder `tern`.
if(NOT CMAKE_SCRIPT_MODE_FILE)
  if(CMAKE_CURRENT_SOURCE_DIR STREQUAL CMAKE_SOURCE_DIR)
    set(CMAKE_CXX_COMPILER_LAUNCHER
        ${CMAKE_COMMAND} -DBUILD=${TERN_BUILD} -DCOPY=${CMAKE_BINARY_DIR}/tern
        -P ${CMAKE_CURRENT_LIST_FILE} -- ${CMAKE_CXX_COMPILER_LAUNCHER})
  endif()
  return()
endif()

set(argument 0)
while(NOT CMAKE_ARGV${argument} STREQUAL "--")
  math(EXPR argument "${argument} + 1")
endwhile()
math(EXPR first "${argument} + 1")
math(EXPR last "${CMAKE_ARGC} - 1")

# `words` begins with the compiler, and is without what only the build tool wants: dependencies.
set(command "")
set(words "")
set(previous "")
foreach(argument RANGE ${first} ${last})
  set(word "${CMAKE_ARGV${argument}}")
  list(APPEND command "${word}")
  if(words MATCHES "^[^ ]+$" AND NOT word MATCHES "^-")
    set(words "${word}")  # behind a launcher
  elseif(previous STREQUAL "-MF")
    set(dependencies "${word}")
  elseif(previous STREQUAL "-o")
    set(object "${word}")
    string(REGEX REPLACE "^tern/" "" inside "${word}")
    string(APPEND words " ${inside}")
  elseif(NOT word MATCHES "^-M[DFT]$" AND NOT previous STREQUAL "-MT")
    string(APPEND words " ${word}")
    string(STRIP "${words}" words)
  endif()
  set(previous "${word}")
endforeach()

file(READ ${BUILD}/compile_commands.json known)
string(REPLACE "${COPY}" "${BUILD}" words "${words}")
string(REGEX REPLACE "[\\\"]" "" known "${known}")
string(REGEX REPLACE "[\\\"]" "" words "${words}")
string(FIND "${known}" "${words}" found)
if(found GREATER_EQUAL 0 AND EXISTS ${BUILD}/${inside})
  file(COPY_FILE ${BUILD}/${inside} ${object})
  if(dependencies)
    file(TOUCH ${dependencies})
  endif()
  return()
endif()
execute_process(COMMAND ${command} RESULT_VARIABLE failed)
if(failed)
  message(FATAL_ERROR "${failed}")
endif()
