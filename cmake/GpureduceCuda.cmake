# Decides whether CUDA kernels are built. A GPU being present never plays a part: machines that build
# packages have none.

# Looks for an nvcc of torch's CUDA major version and sets in the caller NVCC (or empty), NVCC_VERSION,
# NVCC_ORIGIN and, when there is none, NVCC_MISSING: what was found instead.
function(gpureduce_find_nvcc torch_dir torch_cuda wheel_folder)
  string(REGEX MATCH "^[0-9]+" wanted_major "${torch_cuda}")
  cmake_path(GET torch_dir PARENT_PATH site_packages)
  set(candidates "")
  if(CMAKE_CUDA_COMPILER)
    list(APPEND candidates "${CMAKE_CUDA_COMPILER}|CMAKE_CUDA_COMPILER")
  endif()
  if(NOT "$ENV{CUDACXX}" STREQUAL "")
    list(APPEND candidates "$ENV{CUDACXX}|CUDACXX")
  endif()
  foreach(variable CUDA_HOME CUDA_PATH)
    if(NOT "$ENV{${variable}}" STREQUAL "")
      list(APPEND candidates "$ENV{${variable}}/bin/nvcc|${variable}")
    endif()
  endforeach()
  find_program(found NAMES nvcc NO_CACHE)
  if(found)
    list(APPEND candidates "${found}|PATH")
  endif()
  list(APPEND candidates "/usr/local/cuda/bin/nvcc|CUDA Toolkit"
       "${site_packages}/nvidia/${wheel_folder}/bin/nvcc|NVIDIA's wheels")

  set(missing "no nvcc was found")
  foreach(candidate IN LISTS candidates)
    string(REGEX REPLACE "\\|.*" "" path "${candidate}")
    string(REGEX REPLACE ".*\\|" "" origin "${candidate}")
    execute_process(
      COMMAND "${path}" --version
      OUTPUT_VARIABLE text
      ERROR_QUIET
      RESULT_VARIABLE status)
    if(NOT status EQUAL 0 OR NOT text MATCHES "release ([0-9]+)\\.([0-9]+)")
      continue()
    endif()
    if(NOT CMAKE_MATCH_1 STREQUAL wanted_major)
      # One CUDA runtime lives in a process, and its major version is part of its ABI.
      set(missing "${path} is CUDA ${CMAKE_MATCH_1}.${CMAKE_MATCH_2}, torch is CUDA ${torch_cuda}")
      continue()
    endif()
    set(NVCC "${path}" PARENT_SCOPE)
    set(NVCC_VERSION "${CMAKE_MATCH_1}.${CMAKE_MATCH_2}" PARENT_SCOPE)
    set(NVCC_ORIGIN "${origin}" PARENT_SCOPE)
    return()
  endforeach()
  set(NVCC "" PARENT_SCOPE)
  set(NVCC_MISSING "${missing}" PARENT_SCOPE)
endfunction()

# Finds the shared CUDA runtime of the toolkit that holds `nvcc`, else the one torch itself uses. Sets
# in the caller CUDA_TOOLKIT_DIR and CUDART_LIBRARY (or empty).
function(gpureduce_find_cudart nvcc torch_dir wheel_folder major)
  find_program(nvcc_path NAMES "${nvcc}" NO_CACHE)
  file(REAL_PATH "${nvcc_path}" real)
  cmake_path(GET real PARENT_PATH bin)
  cmake_path(GET bin PARENT_PATH toolkit)
  cmake_path(GET torch_dir PARENT_PATH site_packages)
  find_library(
    cudart
    NAMES libcudart.so.${major} libcudart.so
    PATHS "${toolkit}/lib64" "${toolkit}/lib" "${toolkit}/targets/x86_64-linux/lib"
          "${site_packages}/nvidia/${wheel_folder}/lib" "${torch_dir}/lib"
    NO_CACHE NO_DEFAULT_PATH)
  if(NOT cudart)
    find_library(cudart NAMES libcudart.so.${major} cudart NO_CACHE)
  endif()
  if(NOT cudart)
    set(cudart "")
  endif()
  set(CUDA_TOOLKIT_DIR "${toolkit}" PARENT_SCOPE)
  set(CUDART_LIBRARY "${cudart}" PARENT_SCOPE)
endfunction()

# Sets in the caller WITH_CUDA and, when it is true, NVCC_VERSION, CUDART_LIBRARY, CUDA_MAJOR,
# CUDA_WHEEL_FOLDER (the folder of site-packages/nvidia that holds the runtime) and what
# enable_language(CUDA) reads. Prints the decision and why.
macro(gpureduce_decide_cuda choice)
  string(TOUPPER "${choice}" choice_upper)
  if(NOT choice_upper MATCHES "^(AUTO|ON|OFF)$")
    message(FATAL_ERROR "GPUREDUCE_CUDA is '${choice}': it must be AUTO, ON or OFF.")
  endif()
  set(WITH_CUDA OFF)
  set(why "")
  set(cure "")
  set(CUDA_MAJOR "")
  set(CUDA_WHEEL_FOLDER "")
  if(choice_upper STREQUAL "OFF")
    set(why "GPUREDUCE_CUDA=OFF")
  elseif(TORCH_CUDA STREQUAL "")
    set(why "torch ${TORCH_VERSION} is not a CUDA build")
    set(cure "install a CUDA build of torch")
  else()
    string(REGEX MATCH "^[0-9]+" CUDA_MAJOR "${TORCH_CUDA}")
    if(CUDA_MAJOR GREATER_EQUAL 13)
      set(CUDA_WHEEL_FOLDER "cu${CUDA_MAJOR}")
    else()
      set(CUDA_WHEEL_FOLDER cuda_runtime)
    endif()
    set(cure "install a CUDA ${TORCH_CUDA} Toolkit and put its nvcc in PATH or CUDACXX, or")
    string(APPEND cure " pip install 'cuda-toolkit[nvcc,nvvm,crt,cccl,cudart]==${TORCH_CUDA}.*'")
    gpureduce_find_nvcc("${TORCH_DIR}" "${TORCH_CUDA}" "${CUDA_WHEEL_FOLDER}")
    if(NOT NVCC)
      set(why "${NVCC_MISSING}")
    else()
      gpureduce_find_cudart("${NVCC}" "${TORCH_DIR}" "${CUDA_WHEEL_FOLDER}" "${CUDA_MAJOR}")
      if(NOT CUDART_LIBRARY)
        set(why "${NVCC} has no libcudart.so.${CUDA_MAJOR} beside it")
      else()
        set(WITH_CUDA ON)
        set(why "torch is CUDA ${TORCH_CUDA}, nvcc ${NVCC_VERSION} from ${NVCC_ORIGIN}: ${NVCC}")
      endif()
    endif()
  endif()

  if(WITH_CUDA)
    message(STATUS "gpureduce: CUDA kernels ON (${why})")
    set(CMAKE_CUDA_COMPILER "${NVCC}")
    # Architectures are set on the target, after the language is known.
    set(CMAKE_CUDA_ARCHITECTURES OFF)
    # nvcc from NVIDIA's wheels looks for the runtime in lib64, the wheels put it in lib; CMake's
    # compiler check links a program with it.
    if(NOT CMAKE_CUDA_COMPILER_LOADED AND NOT EXISTS "${CUDA_TOOLKIT_DIR}/lib64"
       AND EXISTS "${CUDA_TOOLKIT_DIR}/lib")
      set(CMAKE_CUDA_FLAGS_INIT "-L${CUDA_TOOLKIT_DIR}/lib")
    endif()
  elseif(choice_upper STREQUAL "ON")
    message(FATAL_ERROR "GPUREDUCE_CUDA=ON, but ${why}: ${cure}.")
  else()
    message(STATUS "gpureduce: CUDA kernels OFF, the library will run on the CPU only (${why})")
    if(cure)
      message(STATUS "gpureduce: for CUDA kernels ${cure}")
    endif()
  endif()
endmacro()
