# TORCH_CUDA_ARCH_LIST, read as torch reads it, for CMAKE_CUDA_ARCHITECTURES.

# Parses "8.0;9.0+PTX" (spaces, commas or semicolons between) and sets in the caller
#   <out>_LIST   the same, normalised: 8.0;9.0+PTX
#   <out>_CMAKE  as CMake writes it: 80-real;90
function(gpureduce_parse_arch_list text out)
  string(REGEX REPLACE "[ \t,;]+" ";" names "${text}")
  set(list "")
  set(cmake "")
  foreach(name IN LISTS names)
    if(name STREQUAL "")
      continue()
    endif()
    if(NOT name MATCHES "^([0-9]+)\\.([0-9][af]?)(\\+PTX)?$")
      message(FATAL_ERROR "TORCH_CUDA_ARCH_LIST has '${name}': write compute capabilities such as "
                          "8.0 or 9.0+PTX, with spaces or semicolons between them.")
    endif()
    if(CMAKE_MATCH_3)
      list(APPEND cmake "${CMAKE_MATCH_1}${CMAKE_MATCH_2}")
    else()
      list(APPEND cmake "${CMAKE_MATCH_1}${CMAKE_MATCH_2}-real")
    endif()
    list(APPEND list "${name}")
  endforeach()
  if(NOT list)
    message(FATAL_ERROR "TORCH_CUDA_ARCH_LIST is '${text}': it names no architecture. "
                        "Unset it to take the visible GPU's, or write for example 9.0+PTX.")
  endif()
  list(REMOVE_DUPLICATES list)
  list(REMOVE_DUPLICATES cmake)
  set(${out}_LIST "${list}" PARENT_SCOPE)
  set(${out}_CMAKE "${cmake}" PARENT_SCOPE)
endfunction()

# Sets ARCH_LIST and CMAKE_ARCHS in the caller, from `requested` or, when that is empty, from the
# visible GPUs, or for any card from Hopper on; says which.
function(gpureduce_choose_archs requested)
  set(why "TORCH_CUDA_ARCH_LIST")
  if("${requested}" STREQUAL "")
    execute_process(
      COMMAND nvidia-smi --query-gpu=compute_cap --format=csv,noheader
      OUTPUT_VARIABLE caps
      ERROR_QUIET
      RESULT_VARIABLE status)
    string(REGEX MATCHALL "[0-9]+\\.[0-9]" requested "${caps}")
    if(status EQUAL 0 AND requested)
      set(why "the visible GPU")
    else()
      set(requested "9.0+PTX")
      set(why "the default, no GPU is visible and TORCH_CUDA_ARCH_LIST is not set")
    endif()
  endif()
  gpureduce_parse_arch_list("${requested}" parsed)
  message(STATUS "gpureduce: architectures ${parsed_LIST} (${why})")
  set(ARCH_LIST "${parsed_LIST}" PARENT_SCOPE)
  set(CMAKE_ARCHS "${parsed_CMAKE}" PARENT_SCOPE)
endfunction()
