// RETURN_IF_ERROR and ASSIGN_OR_RETURN for absl::Status, which Debian's absl lacks.
#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// Evaluates `expr` (an absl::Status) and returns it from the enclosing function unless it is OK.
#define RETURN_IF_ERROR(expr)                                         \
  do {                                                                \
    if (absl::Status status_ = (expr); !status_.ok()) return status_; \
  } while (false)

#define TRAINYARD_CONCAT_(a, b) a##b
#define TRAINYARD_CONCAT(a, b) TRAINYARD_CONCAT_(a, b)

// ASSIGN_OR_RETURN(lhs, expr): `expr` is an absl::StatusOr<T>; assigns its value or returns its
// status.
#define ASSIGN_OR_RETURN(lhs, expr) \
  TRAINYARD_ASSIGN_OR_RETURN_(TRAINYARD_CONCAT(statusor_, __LINE__), lhs, expr)
#define TRAINYARD_ASSIGN_OR_RETURN_(statusor, lhs, expr)   \
  auto statusor = (expr);                                  \
  if (!statusor.ok()) return std::move(statusor).status(); \
  lhs = *std::move(statusor)
