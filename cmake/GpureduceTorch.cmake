# Finds the torch package without importing it and reads what the build must know from it.

# Sets in the caller TORCH_DIR, TORCH_VERSION ("2.11.0+cu130") and TORCH_CUDA ("13.0", or empty).
function(gpureduce_locate_torch given)
  set(dir "${given}")
  if(NOT dir)
    set(Python3_FIND_VIRTUALENV FIRST)
    find_package(Python3 COMPONENTS Interpreter)
    if(NOT Python3_Interpreter_FOUND)
      message(FATAL_ERROR "No Python 3 to ask for torch: give -DGPUREDUCE_TORCH_DIR=<site-packages/torch>.")
    endif()
    string(CONCAT ask "import importlib.util as util\nspec = util.find_spec('torch')\n"
                      "print(spec.submodule_search_locations[0] if spec else '')")
    execute_process(
      COMMAND "${Python3_EXECUTABLE}" -c "${ask}"
      OUTPUT_VARIABLE dir
      OUTPUT_STRIP_TRAILING_WHITESPACE)
    if(NOT dir)
      message(FATAL_ERROR "${Python3_EXECUTABLE} has no torch: install it there, or give "
                          "-DGPUREDUCE_TORCH_DIR=<site-packages/torch> or -DPython3_EXECUTABLE=<python>.")
    endif()
  endif()
  if(NOT EXISTS "${dir}/version.py" OR NOT EXISTS "${dir}/include/ATen/ATen.h")
    message(FATAL_ERROR "${dir} is no torch package: it lacks version.py or include/ATen/ATen.h.")
  endif()

  file(READ "${dir}/version.py" text)
  if(NOT text MATCHES "__version__ = '([^']+)'")
    message(FATAL_ERROR "${dir}/version.py names no version.")
  endif()
  set(version "${CMAKE_MATCH_1}")
  string(REGEX MATCH "^[0-9]+\\.[0-9]+" major_minor "${version}")
  if(major_minor VERSION_LESS 2.11)
    message(FATAL_ERROR "gpureduce needs torch 2.11 or newer, ${dir} is torch ${version}.")
  endif()
  set(cuda "")
  if(text MATCHES "\ncuda[^=\n]*= '([^']+)'")
    set(cuda "${CMAKE_MATCH_1}")
  endif()
  set(TORCH_DIR "${dir}" PARENT_SCOPE)
  set(TORCH_VERSION "${version}" PARENT_SCOPE)
  set(TORCH_CUDA "${cuda}" PARENT_SCOPE)
endfunction()
