// TRAINYARD_MULTIVERSION before a function compiles it once for each level of x86-64 and picks the
// best at load time, so that one binary runs everywhere and is fast where it can be.
#pragma once

// The pick happens before a sanitizer's runtime is up, so sanitized builds take the plain version.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TRAINYARD_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || \
    __has_feature(memory_sanitizer)
#define TRAINYARD_SANITIZED 1
#endif
#endif

#if defined(__x86_64__) && !defined(TRAINYARD_SANITIZED)
#define TRAINYARD_MULTIVERSION \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define TRAINYARD_MULTIVERSION
#endif

// Tells the compiler that iterations of the next loop do not depend on each other: in and out are
// either the same memory or apart.
#if defined(__clang__)
#define TRAINYARD_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define TRAINYARD_INDEPENDENT _Pragma("GCC ivdep")
#endif
