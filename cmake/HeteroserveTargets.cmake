# One static library a folder: hs_folder(NAME [DEPENDS other folders' targets and libraries]).
# Every .cpp in the folder (not below it) belongs to the target.

add_library(hs_options INTERFACE)
target_include_directories(hs_options INTERFACE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR})
target_compile_options(hs_options INTERFACE
  -Wall -Wextra -Wconversion -Wshadow -Wnon-virtual-dtor -Wold-style-cast
  $<$<BOOL:${HETEROSERVE_WERROR}>:-Werror>
  # GCC 12 warns wrongly of std::string's own memcpy (its bug 105651) and of std::variant's unused members.
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict> $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>
  -ffile-prefix-map=${CMAKE_SOURCE_DIR}=. -fno-math-errno)
if(HETEROSERVE_SANITIZE)
  target_compile_options(hs_options INTERFACE -fsanitize=${HETEROSERVE_SANITIZE} -fno-omit-frame-pointer
    -fno-sanitize-recover=all)
  target_link_options(hs_options INTERFACE -fsanitize=${HETEROSERVE_SANITIZE})
endif()

function(hs_folder name)
  cmake_parse_arguments(ARG "" "" "DEPENDS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS *.cpp)
  if(sources)
    add_library(${name} STATIC ${sources})
    target_link_libraries(${name} PUBLIC hs_options ${ARG_DEPENDS})
  else()
    add_library(${name} INTERFACE)
    target_link_libraries(${name} INTERFACE hs_options ${ARG_DEPENDS})
  endif()
endfunction()

# A test binary a folder: hs_tests(FOLDER [DEPENDS ...]) builds tests/FOLDER/*_tests.cpp into hs_test_FOLDER.
function(hs_tests folder)
  cmake_parse_arguments(ARG "" "" "DEPENDS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*.cpp)
  if(NOT sources)
    return()
  endif()
  add_executable(hs_test_${folder} ${sources} ${CMAKE_CURRENT_SOURCE_DIR}/support/main.cpp
    ${CMAKE_CURRENT_SOURCE_DIR}/support/source_dir.cpp)
  target_compile_definitions(hs_test_${folder} PRIVATE BOOST_TEST_DYN_LINK)
  target_include_directories(hs_test_${folder} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  target_link_libraries(hs_test_${folder} PRIVATE ${ARG_DEPENDS} Boost::unit_test_framework)
  # Most of a test's build time is Boost.Test's header and optimising its macros: neither is worth it.
  # At -O1 GCC 12 loses track of what std::string holds, and warns of its memcpy.
  target_compile_options(hs_test_${folder} PRIVATE -O1 $<$<CXX_COMPILER_ID:GNU>:-Wno-array-bounds>
    $<$<CXX_COMPILER_ID:GNU>:-Wno-stringop-overflow> $<$<CXX_COMPILER_ID:GNU>:-Wno-stringop-overread>)
  target_precompile_headers(hs_test_${folder} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/support/precompiled.h)
  add_test(NAME ${folder} COMMAND hs_test_${folder})
endfunction()

# A fuzz target: hs_fuzz(NAME DEPENDS ...) builds tests/fuzz/NAME_fuzz.cpp into fuzz_NAME, with libFuzzer under clang and
# with the small driver of tests/fuzz/driver.cpp otherwise. Its corpus is tests/fuzz/corpus/NAME.
function(hs_fuzz name)
  cmake_parse_arguments(ARG "" "" "DEPENDS" ${ARGN})
  if(NOT EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/fuzz/${name}_fuzz.cpp)
    return()
  endif()
  add_executable(fuzz_${name} fuzz/${name}_fuzz.cpp)
  target_link_libraries(fuzz_${name} PRIVATE ${ARG_DEPENDS})
  if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
    target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
  else()
    target_sources(fuzz_${name} PRIVATE fuzz/driver.cpp)
  endif()
endfunction()
