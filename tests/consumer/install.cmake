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

# One program, with what shells and man look for where they look for it, and a page for each command
# that is a program of the tree.
file(GLOB programs RELATIVE ${PREFIX}/bin ${PREFIX}/bin/*)
if(NOT programs STREQUAL "tern")
  message(FATAL_ERROR "tern alone should be installed, not ${programs}")
endif()
set(files share/doc/tern/copyright share/doc/libtern-dev/copyright include/tern/version.h
          share/man/man1/tern.1 share/zsh/site-functions/_tern share/bash-completion/completions/tern)
foreach(command lm ntm train-cifar translate)
  list(APPEND files share/man/man1/tern-${command}.1)
endforeach()
foreach(file ${files})
  if(NOT EXISTS ${PREFIX}/${file})
    message(FATAL_ERROR "${file} is not installed")
  endif()
endforeach()
