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

# The programs, with what shells and man look for where they look for it.
file(GLOB mains ${CMAKE_CURRENT_LIST_DIR}/../../apps/*/main.cpp)
foreach(main ${mains})
  get_filename_component(folder ${main} DIRECTORY)
  get_filename_component(program ${folder} NAME)
  foreach(file bin/${program} share/man/man1/${program}.1 share/zsh/site-functions/_${program}
               share/bash-completion/completions/${program})
    if(NOT EXISTS ${PREFIX}/${file})
      message(FATAL_ERROR "${file} is not installed")
    endif()
  endforeach()
endforeach()
