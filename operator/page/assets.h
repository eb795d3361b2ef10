// The files of the page, built into the program.
#pragma once

#include <span>
#include <string_view>

namespace tfjob {

struct PageFile {
  std::string_view path;  // "/page.js"
  std::string_view text;
};
std::span<const PageFile> PageFiles();

}  // namespace tfjob
