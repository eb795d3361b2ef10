// $(VAR) references in env values, commands and arguments, with the rules of Kubernetes. PURE.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace tfjob {

// The value of a variable, or nullopt if it is not defined.
using VariableLookup = std::function<std::optional<std::string>(std::string_view name)>;

// Replaces $(NAME) by its value. As Kubernetes has it: a reference to an undefined variable stays
// as it is written, $$ is a literal $ (so $$(NAME) gives $(NAME)), a $ before anything else and an
// unclosed $( are literal, and values are not expanded again.
std::string Expand(std::string_view text, const VariableLookup& lookup);

// Whether Kubernetes takes `name` as the name of an environment variable:
// [-._a-zA-Z][-._a-zA-Z0-9]*.
bool IsEnvName(std::string_view name);

}  // namespace tfjob
