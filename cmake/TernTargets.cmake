# How every target of tern is made: the one spelling of includes, flags, libraries.

if((CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 12)
   OR (CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 14))
  message(FATAL_ERROR "tern needs g++ 12 or clang 14 or newer, but ${CMAKE_CXX_COMPILER} is "
                      "${CMAKE_CXX_COMPILER_VERSION}; choose another with -DCMAKE_CXX_COMPILER=...")
endif()

# `#include "tern/core/tensor/tensor.h"` everywhere: <build>/include/tern/<folder> links to each folder.
set(TERN_INCLUDE ${CMAKE_CURRENT_BINARY_DIR}/include)
file(MAKE_DIRECTORY ${TERN_INCLUDE}/tern)
foreach(entry core nn onnx optim data train models decode pretrained dist apps tests bench
              tern.h version.h)
  file(CREATE_LINK ${CMAKE_CURRENT_SOURCE_DIR}/${entry} ${TERN_INCLUDE}/tern/${entry} SYMBOLIC)
endforeach()

# What lets loops become vector code (core/base/simd.h). The maths flags change no result that is
# not an exception or errno; clang would keep AVX-512 code to half of its registers.
set(TERN_CLANG $<CXX_COMPILER_ID:Clang,AppleClang>)  # of a user, whose compiler need not be that of tern
set(TERN_VECTOR_FLAGS -fopenmp-simd -fno-math-errno -fno-trapping-math)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  list(APPEND TERN_VECTOR_FLAGS $<${TERN_CLANG}:-mprefer-vector-width=512>)
endif()

# Which products and sums a compiler fuses depends on the vector level, the processor, the compiler
# and its -O: none, so that results do not. tern::core hands this on to all that link it, since
# fused() and simd() compile formulas where they are written.
set(TERN_SAME_BITS $<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off>)
# For sources whose sums are fused multiply-adds: g++ makes them from -O2 on, in every build type.
set(TERN_FUSED_SUMS -O3 -ffp-contract=fast)

# For kernels of users' own: target_link_libraries(mine PRIVATE tern::vector_code). Formulas in f64
# call the C library, one element at a time: of each such loop clang would warn, in tern's headers.
add_library(tern_vector_code INTERFACE)
target_compile_options(tern_vector_code INTERFACE ${TERN_VECTOR_FLAGS}
                                                  $<${TERN_CLANG}:-Wno-pass-failed>)
set_target_properties(tern_vector_code PROPERTIES EXPORT_NAME vector_code)
add_library(tern::vector_code ALIAS tern_vector_code)

# tern_flags(target): C++20, warnings and the include path. Loops that ask for vectors get none
# under the sanitizers or at -O0, of which clang warns each time.
function(tern_flags target)
  target_compile_features(${target} PUBLIC cxx_std_20)
  set(unoptimised $<NOT:$<CONFIG:Release>>)
  target_compile_options(${target} PRIVATE -Wall -Wextra ${TERN_VECTOR_FLAGS}
                                           -ffunction-sections -fdata-sections
                                           $<$<AND:${TERN_CLANG},${unoptimised}>:-Wno-pass-failed>)
  target_include_directories(${target} PUBLIC $<BUILD_INTERFACE:${TERN_INCLUDE}>
                                              $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
endfunction()

# tern_units(target bytes): the sources compile together, in units of about so many bytes: much of
# what a file costs is reading its headers. Those of kernels/ count three times, since their loops
# take long to compile. Sources with flags of their own, set before, stay alone.
# -DCMAKE_UNITY_BUILD=OFF has each file alone, for work on a few of them.
function(tern_units target bytes)
  if(DEFINED CMAKE_UNITY_BUILD AND NOT CMAKE_UNITY_BUILD)
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  list(FILTER sources EXCLUDE REGEX "^\\$")
  set(total ${bytes})
  foreach(source ${sources})
    get_source_file_property(own ${source} COMPILE_OPTIONS)
    if(own)
      continue()
    endif()
    file(SIZE ${source} size)
    if(source MATCHES "/kernels/")
      math(EXPR size "3 * ${size}")
    endif()
    math(EXPR total "${total} + ${size}")
    if(total GREATER bytes)
      set(total ${size})
      math(EXPR unit "${unit} + 1")
    endif()
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP unit${unit})
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  # g++ takes all but the unit's own file for headers, where it warns of types from anonymous
  # namespaces.
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
endfunction()

# tern_library(name dependencies... [SOURCES files...]): the static library tern::name from
# name/**/*.cpp, where data_text stands for data/text, but for files that are another's SOURCES.
# With BUILD_SHARED_LIBS the static library is only a part of libtern.so, and tern::name links that.
function(tern_library name)
  cmake_parse_arguments(PARSE_ARGV 1 given "" "" "SOURCES")
  set(sources ${given_SOURCES})
  if(sources)
    list(TRANSFORM sources PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
    set_property(GLOBAL APPEND PROPERTY TERN_TAKEN ${sources})
  else()
    string(REPLACE "_" "/" folder ${name})
    get_property(taken GLOBAL PROPERTY TERN_TAKEN)
    file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*.cpp)
    list(REMOVE_ITEM sources ${taken})
  endif()
  add_library(tern_${name} STATIC ${sources})
  tern_flags(tern_${name})
  tern_units(tern_${name} 80000)
  set(links ${given_UNPARSED_ARGUMENTS})
  set(target tern_${name})
  if(BUILD_SHARED_LIBS)
    list(TRANSFORM links REPLACE "^tern::" "tern_")
    set(target tern_${name}_shared)
    add_library(${target} INTERFACE)
    target_link_libraries(${target} INTERFACE tern_shared)
  endif()
  target_link_libraries(tern_${name} PUBLIC ${links})
  set_target_properties(tern_${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})
  add_library(tern::${name} ALIAS ${target})
  set_property(GLOBAL APPEND PROPERTY TERN_PARTS tern_${name})
  set_property(GLOBAL APPEND PROPERTY TERN_LIBRARIES ${target})
endfunction()

# tern_shared_library(): libtern.so of all libraries. It exports the names of tern alone: those that
# it has of the standard library, fmt and others could meet a program's own. Until version 1 a minor
# version may change the binary interface.
function(tern_shared_library)
  get_property(parts GLOBAL PROPERTY TERN_PARTS)
  add_library(tern_shared SHARED)
  foreach(part ${parts})
    target_sources(tern_shared PRIVATE $<TARGET_OBJECTS:${part}>)
  endforeach()
  tern_flags(tern_shared)
  target_compile_options(tern_shared PUBLIC ${TERN_SAME_BITS})
  target_link_libraries(tern_shared PUBLIC fmt::fmt PRIVATE ${parts})
  set(names ${PROJECT_BINARY_DIR}/libtern.names)
  file(WRITE ${names} "{ global: _Z*4tern*; local: *; };\n")
  target_link_options(tern_shared PRIVATE LINKER:--version-script=${names})
  set_target_properties(tern_shared PROPERTIES OUTPUT_NAME tern EXPORT_NAME shared LINKER_LANGUAGE CXX
                        VERSION ${PROJECT_VERSION}
                        SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
  set_property(GLOBAL APPEND PROPERTY TERN_LIBRARIES tern_shared)
endfunction()
