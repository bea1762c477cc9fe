# Installs the build tree BUILD into an empty PREFIX.
file(REMOVE_RECURSE ${PREFIX})
execute_process(COMMAND ${CMAKE_COMMAND} --install ${BUILD} --prefix ${PREFIX}
                COMMAND_ERROR_IS_FATAL ANY OUTPUT_QUIET)

# What is for the inside of a library is not for users.
file(GLOB_RECURSE headers ${PREFIX}/include/tern/*.h)
foreach(header ${headers})
  file(STRINGS ${header} inside REGEX "^// Inside of")
  if(inside)
    message(FATAL_ERROR "${header} is installed, but is internal: ${inside}")
  endif()
endforeach()
if(NOT headers)
  message(FATAL_ERROR "no headers are installed")
endif()
