# With HETEROSERVE_CUDA: nvcc, for the architectures that are supported, and PTX for later ones. The toolkit is the one
# tools/cuda_toolkit.sh finds or fetches, unless HETEROSERVE_CUDA_ROOT names one.
option(HETEROSERVE_CUDA "Compile the CUDA kernels, and their tests on an emulated GPU" OFF)
set(HETEROSERVE_CUDA_ROOT "" CACHE PATH "Root of a CUDA toolkit, 12.4 or later")
if(NOT HETEROSERVE_CUDA)
  return()
endif()

if(NOT HETEROSERVE_CUDA_ROOT)
  execute_process(COMMAND ${CMAKE_SOURCE_DIR}/tools/cuda_toolkit.sh OUTPUT_VARIABLE root
    OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  set(HETEROSERVE_CUDA_ROOT ${root} CACHE PATH "" FORCE)
endif()
set(CMAKE_CUDA_COMPILER ${HETEROSERVE_CUDA_ROOT}/bin/nvcc CACHE FILEPATH "" FORCE)
set(CMAKE_CUDA_ARCHITECTURES 80-real 89-real 90 CACHE STRING "")
enable_language(CUDA)
# CMake 3.25 knows no standard beyond 17 for nvcc 13.
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
endif()

# What the host compiler needs of the toolkit: its C headers.
add_library(hs_cuda_headers INTERFACE)
target_include_directories(hs_cuda_headers SYSTEM INTERFACE ${HETEROSERVE_CUDA_ROOT}/include)

# hs_cuda_library(NAME source ...): objects for every architecture. What ptxas says of each kernel is kept for
# tools/cuda_report.py.
function(hs_cuda_library name)
  add_library(${name} STATIC ${ARGN})
  target_include_directories(${name} PUBLIC ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR})
  target_compile_options(${name} PRIVATE --expt-relaxed-constexpr -Xptxas -v -Xcompiler=-Wall,-Wextra,-Wshadow
    $<$<BOOL:${HETEROSERVE_WERROR}>:-Werror=all-warnings>)
  set_target_properties(${name} PROPERTIES CUDA_STANDARD 20 CUDA_STANDARD_REQUIRED ON
    CUDA_COMPILER_LAUNCHER "python3;${CMAKE_SOURCE_DIR}/tools/cuda_compile.py;${CMAKE_CXX_COMPILER_LAUNCHER}")
endfunction()
