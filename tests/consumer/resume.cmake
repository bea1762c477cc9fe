# Runs of PROGRAM that are stopped or killed in mid-epoch and go on end with the bytes of one that
# is not.
function(run_program expected)
  execute_process(COMMAND ${PROGRAM} ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE output)
  if(NOT result MATCHES "${expected}")
    message(FATAL_ERROR "${PROGRAM} ${ARGN} ended with ${result}, not ${expected}: ${output}")
  endif()
endfunction()

file(REMOVE_RECURSE ${DIR})
run_program(^0$ ${DIR}/whole)
run_program(^130$ ${DIR}/stopped 70 2)  # SIGINT: saves and ends
run_program(^0$ ${DIR}/stopped)
run_program([kK]illed ${DIR}/killed 70 9)  # SIGKILL: what was saved before counts
run_program(^0$ ${DIR}/killed)
foreach(run stopped killed)
  foreach(file model.safetensors best.safetensors)
    execute_process(COMMAND ${CMAKE_COMMAND} -E compare_files ${DIR}/whole/${file}
                            ${DIR}/${run}/${file} COMMAND_ERROR_IS_FATAL ANY)
  endforeach()
endforeach()
