# Read by the root CMakeLists.txt where TRAINYARD_CUDA is ON: CUDA as a language, and the GPU plug-in.
# The compiler is CMAKE_CUDA_COMPILER or $CUDACXX, else `make cuda-toolkit`'s where that was made, else what CMake finds.

# GPUs that the plug-in carries code for; newer ones compile the last one's at start. The P100's and V100's
# 60 and 70 need a CUDA Toolkit 12.
set(CMAKE_CUDA_ARCHITECTURES 75-real 80-real 90-real 100 CACHE STRING "Compute capabilities of the GPU plug-in")
set(assembled ${PROJECT_SOURCE_DIR}/build/cuda-toolkit)
if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX} AND EXISTS ${assembled}/bin/nvcc)
  file(REAL_PATH ${assembled} assembled)
  set(CMAKE_CUDA_COMPILER ${assembled}/bin/nvcc)
  set(CUDAToolkit_ROOT ${assembled})
endif()
include(CheckLanguage)
check_language(CUDA)
if(NOT CMAKE_CUDA_COMPILER)
  message(FATAL_ERROR "TRAINYARD_CUDA is ON and there is no CUDA compiler: install a CUDA Toolkit and name it with "
                      "-DCMAKE_CUDA_COMPILER=PATH/bin/nvcc, or run `make cuda-toolkit`")
endif()
enable_language(CUDA)
find_package(CUDAToolkit REQUIRED)
# CMake 3.25 does not know yet that nvcc has C++20.
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
endif()
if(CCACHE)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
endif()

string(REGEX REPLACE "-[a-z]+" "" architectures "${CMAKE_CUDA_ARCHITECTURES}")
string(REPLACE ";" " " architectures "${architectures}")

# The CUDA runtime is linked in; cuBLASLt is loaded when needed; the driver comes with the machine.
add_library(trainer_cuda_plugin MODULE trainer/cuda/plugin/plugin.cu trainer/cuda/plugin/gpu.cc trainer/cuda/plugin/cublaslt.cc)
set_target_properties(trainer_cuda_plugin PROPERTIES
  OUTPUT_NAME trainer_cuda CUDA_STANDARD 20 CUDA_STANDARD_REQUIRED ON CUDA_RUNTIME_LIBRARY Static LINKER_LANGUAGE CXX
  CXX_VISIBILITY_PRESET hidden CUDA_VISIBILITY_PRESET hidden
  BUILD_RPATH "$ORIGIN;${CUDAToolkit_LIBRARY_DIR}" INSTALL_RPATH "$ORIGIN")
install(TARGETS trainer_cuda_plugin LIBRARY DESTINATION lib/trainyard COMPONENT cuda)
target_include_directories(trainer_cuda_plugin PRIVATE ${PROJECT_SOURCE_DIR} ${CUDAToolkit_INCLUDE_DIRS})
set_source_files_properties(trainer/cuda/plugin/gpu.cc PROPERTIES
  COMPILE_DEFINITIONS "TRAINER_CUDA_ARCHITECTURES=\"${architectures}\"")
target_compile_options(trainer_cuda_plugin PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:--threads=2 -Xcompiler=-Wall>)
target_link_libraries(trainer_cuda_plugin PRIVATE CUDA::cudart_static Threads::Threads ${CMAKE_DL_LIBS} rt)

# How products are asked of cuBLASLt, with a stand-in for it; needs the real headers, but no GPU.
add_library(trainer_cublaslt_fake MODULE trainer/cuda/plugin/fake_cublaslt.cc)
set_target_properties(trainer_cublaslt_fake PROPERTIES
  LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/fake_cublaslt
  PREFIX "" OUTPUT_NAME libcublasLt SUFFIX .so.${CUDAToolkit_VERSION_MAJOR})
trainyard_test(trainer_cublaslt_test SOURCES trainer/cuda/plugin/cublaslt.cc trainer/cuda/plugin/cublaslt_test.cc DEPS ${CMAKE_DL_LIBS})
set_target_properties(trainer_cublaslt_test PROPERTIES BUILD_RPATH ${PROJECT_BINARY_DIR}/fake_cublaslt)
add_dependencies(trainer_cublaslt_test trainer_cublaslt_fake)
foreach(target trainer_cublaslt_fake trainer_cublaslt_test)
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR} ${CUDAToolkit_INCLUDE_DIRS})
endforeach()
