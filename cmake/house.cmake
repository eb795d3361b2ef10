# Read at the end of the root CMakeLists.txt, when every target is known: what concerns all of them.

# The layering check, and the check of the check.
add_test(NAME layering
  COMMAND ${CMAKE_COMMAND} -DROOT=${PROJECT_SOURCE_DIR} -P ${PROJECT_SOURCE_DIR}/cmake/check_layering.cmake)
add_test(NAME layering_catches_bad_includes
  COMMAND ${CMAKE_COMMAND} -DROOT=${PROJECT_SOURCE_DIR} -DSELF_TEST=${PROJECT_BINARY_DIR}/layering_self_test
          -P ${PROJECT_SOURCE_DIR}/cmake/check_layering.cmake)

get_property(house_targets DIRECTORY PROPERTY BUILDSYSTEM_TARGETS)

# `generated`: every generated source, for tools that read sources without building them.
add_custom_target(generated)
foreach(target ${house_targets})
  if(target MATCHES "_proto$")
    add_dependencies(generated ${target})
  endif()
endforeach()

# Under ThreadSanitizer each program carries definitions that show absl's locks to it.
if(TRAINYARD_SANITIZE MATCHES "thread")
  add_library(tsan_absl OBJECT cmake/tsan_absl.cc)
  target_link_libraries(tsan_absl PUBLIC absl::synchronization ${CMAKE_DL_LIBS})
  foreach(target ${house_targets})
    get_target_property(type ${target} TYPE)
    if(type STREQUAL "EXECUTABLE")
      target_link_libraries(${target} PRIVATE tsan_absl)
    endif()
  endforeach()
endif()

# trainyard_fuzzer(NAME SOURCE DEPS ...): a libFuzzer program; seeds come from cmake/fuzz_seeds.py.
function(trainyard_fuzzer name source)
  if(NOT EXISTS ${PROJECT_SOURCE_DIR}/${source})
    return()
  endif()
  add_executable(${name} ${source})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}/gen)
  target_link_libraries(${name} PRIVATE ${ARGN} -fsanitize=fuzzer)
  add_dependencies(fuzzers ${name})
endfunction()

if(TRAINYARD_FUZZERS)
  add_custom_target(fuzzers)
  trainyard_fuzzer(cluster_spec_fuzz base/cluster_spec_fuzz.cc base)
  trainyard_fuzzer(manifest_fuzz operator/cli/manifest_fuzz.cc operator_cli)
  trainyard_fuzzer(kube_fuzz operator/kube/kube_fuzz.cc operator_kube)
  trainyard_fuzzer(idx_fuzz trainer/data/idx_fuzz.cc trainer_data)
  trainyard_fuzzer(tfrecord_fuzz trainer/data/tfrecord_fuzz.cc trainer_data)
  trainyard_fuzzer(checkpoint_index_fuzz trainer/checkpoint/checkpoint_index_fuzz.cc trainer_checkpoint)
endif()
