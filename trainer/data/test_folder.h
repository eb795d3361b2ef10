// A folder for one test, removed with it.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace trainer {

class TestFolder {
 public:
  TestFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "trainyard-XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  ~TestFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string Read(const std::string& name) const {
    std::ifstream stream(path_ + "/" + name, std::ios::binary);
    std::ostringstream content;
    content << stream.rdbuf();
    return content.str();
  }
  void Write(const std::string& name, const std::string& content) const {
    std::ofstream(path_ + "/" + name, std::ios::binary) << content;
  }
  void FlipByte(const std::string& name, size_t at) const {
    std::string content = Read(name);
    content[at] = static_cast<char>(content[at] ^ 1);
    Write(name, content);
  }

 private:
  std::string path_;
};

}  // namespace trainer
