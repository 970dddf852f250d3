# SPDX-License-Identifier: Apache-2.0
# Settings shared by every target, and coda_layer(): one static library per layer of src/.

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

add_library(coda_settings INTERFACE)
target_compile_features(coda_settings INTERFACE cxx_std_20)
# No -ffast-math and no contraction: the same expression gives the same bits everywhere.
target_compile_options(coda_settings INTERFACE -Wall -Wextra -Wno-missing-field-initializers
  -ffp-contract=off -fno-math-errno -fno-trapping-math -fvisibility=hidden)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # gcc 12 reports string concatenation that the standard library does right.
  target_compile_options(coda_settings INTERFACE -Wno-restrict)
endif()
if(CODA_WERROR)
  target_compile_options(coda_settings INTERFACE -Werror)
endif()
# A baseline that every x86-64 server has; wider vectors are chosen at run time.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  target_compile_options(coda_settings INTERFACE -march=x86-64-v2)
endif()

# CODA_SANITIZE: "address", "undefined", "address,undefined", "thread". Every report ends the program.
if(CODA_SANITIZE)
  target_compile_options(coda_settings INTERFACE
    -fsanitize=${CODA_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(coda_settings INTERFACE -fsanitize=${CODA_SANITIZE})
endif()

if(CODA_FUZZ)
  target_compile_options(coda_settings INTERFACE -fsanitize=fuzzer-no-link)
endif()

find_program(CODA_CCACHE ccache)
if(CODA_CCACHE AND PROJECT_IS_TOP_LEVEL)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CODA_CCACHE})
endif()

# coda_layer(NAME sources...): the static library coda_NAME. Link only layers below it.
function(coda_layer name)
  add_library(coda_${name} STATIC ${ARGN})
  target_link_libraries(coda_${name} PUBLIC coda_settings)
  target_include_directories(coda_${name} PUBLIC
    ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
endfunction()

# coda_test(NAME LIBRARIES lib... SOURCES file...): a GoogleTest executable registered with ctest.
function(coda_test name)
  cmake_parse_arguments(arg "" "" "LIBRARIES;SOURCES;LABELS" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE ${arg_LIBRARIES} GTest::gtest_main GTest::gmock)
  target_compile_definitions(${name} PRIVATE CODA_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  add_test(NAME ${name} COMMAND ${name})
  if(arg_LABELS)
    set_tests_properties(${name} PROPERTIES LABELS "${arg_LABELS}")
  endif()
endfunction()

# coda_fuzz(NAME LIBRARIES lib... SOURCES file...): the fuzz target bin/fuzz_NAME (clang's libFuzzer).
function(coda_fuzz name)
  cmake_parse_arguments(arg "" "" "LIBRARIES;SOURCES" ${ARGN})
  add_executable(fuzz_${name} ${arg_SOURCES})
  target_link_libraries(fuzz_${name} PRIVATE ${arg_LIBRARIES})
  target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
  set_target_properties(fuzz_${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
endfunction()
