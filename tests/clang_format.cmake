# Fails, naming the places, if a source file is not as clang-format would write it.
foreach(folder core nn onnx optim data train models decode pretrained dist apps tests bench)
  file(GLOB_RECURSE found ${ROOT}/${folder}/*.h ${ROOT}/${folder}/*.cpp)
  list(APPEND sources ${found})
endforeach()
execute_process(COMMAND ${CLANG_FORMAT} --dry-run -Werror ${sources} ${ROOT}/tern.h
                RESULT_VARIABLE failed)
if(failed)
  message(FATAL_ERROR "run clang-format -i on these files")
endif()
