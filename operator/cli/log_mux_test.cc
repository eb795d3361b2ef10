#include "operator/cli/log_mux.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "operator/cli/progress_poller.h"

namespace tfjob {
namespace {

class LogMuxTest : public testing::Test {
 protected:
  LogMuxTest() : output_(*MakePipe()) { fcntl(output_.read_end.get(), F_SETFL, O_NONBLOCK); }

  LogMux::Options Options(bool terminal = false) const {
    return {.output = output_.write_end.get(), .terminal = terminal, .label_width = 4};
  }
  // Adds a source; what is written to the result becomes its lines.
  static Fd AddTo(LogMux& mux, const std::string& label) {
    Pipe pipe = *MakePipe();
    EXPECT_TRUE(mux.Add(std::move(pipe.read_end), label, "/dev/null").ok());
    return std::move(pipe.write_end);
  }
  static void Write(const Fd& fd, std::string_view text) {
    ASSERT_EQ(write(fd.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  static void ReadAll(LogMux& mux) {
    for (const int source : mux.Sources()) mux.ReadFrom(source);
  }
  std::string Output() const {
    std::string text(1 << 16, '\0');
    const ssize_t size = read(output_.read_end.get(), text.data(), text.size());
    text.resize(static_cast<size_t>(std::max<ssize_t>(size, 0)));
    return text;
  }
  Pipe output_;
};

TEST_F(LogMuxTest, WritesWholeLinesOnly) {
  LogMux mux(Options());
  const Fd a = AddTo(mux, "a");
  const Fd b = AddTo(mux, "b");
  Write(a, "one\ntw");
  Write(b, "x");
  ReadAll(mux);
  mux.Flush();
  EXPECT_EQ(Output(), "a         | one\n");
  Write(a, "o\n\nthree\n");
  ReadAll(mux);
  mux.Flush();
  EXPECT_EQ(Output(), "a         | two\na         | \na         | three\n");
  mux.Drain();
  mux.Flush();
  EXPECT_EQ(Output(), "b         | x\n");
}

TEST_F(LogMuxTest, TakesTheLastStateOfARedrawnLine) {
  LogMux mux(Options());
  const Fd a = AddTo(mux, "a");
  Write(a, "10%\r50%\r100%\nwindows\r\n");
  ReadAll(mux);
  mux.Flush();
  EXPECT_EQ(Output(), "a         | 100%\na         | windows\n");
}

TEST_F(LogMuxTest, CutsLinesWithoutEnd) {
  LogMux mux(Options());
  const Fd a = AddTo(mux, "a");
  for (int i = 0; i < 2; ++i) {
    Write(a, std::string(30 << 10, 'x'));
    ReadAll(mux);
  }
  EXPECT_FALSE(mux.pending());
  Write(a, std::string(30 << 10, 'x'));
  ReadAll(mux);
  EXPECT_TRUE(mux.pending());
}

TEST_F(LogMuxTest, StopsReadingWhenTheOutputIsNotTaken) {
  LogMux mux(Options());
  const Fd a = AddTo(mux, "a");
  for (int i = 0; i < 200 && !mux.Sources().empty(); ++i) {
    Write(a, std::string(1 << 15, 'x') + "\n");
    ReadAll(mux);
    mux.Flush();
  }
  EXPECT_THAT(mux.Sources(), testing::IsEmpty());
}

TEST_F(LogMuxTest, KeepsTheProgressLineBelowTheLog) {
  LogMux mux(Options(/*terminal=*/true));
  mux.SetProgress("50%");
  mux.Flush();
  EXPECT_EQ(Output(), "50%");
  mux.Say("hello");
  mux.Flush();
  EXPECT_EQ(Output(), "\r\033[2Ktrainyard | hello\n50%");
  mux.SetProgress("");
  mux.Flush();
  EXPECT_EQ(Output(), "\r\033[2K");
}

TEST_F(LogMuxTest, NamesTheLogFileThatItCannotOpen) {
  LogMux mux(Options());
  const absl::Status status =
      mux.Add(std::move(MakePipe()->read_end), "a", "/no/such/folder/a.log");
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("/no/such/folder/a.log"));
}

TEST(ProgressTest, IsShown) {
  const Progress progress{.global_step = 500,
                          .last_step = 1000,
                          .loss = 0.25,
                          .examples_per_sec = 12000,
                          .eta_seconds = 62};
  EXPECT_EQ(FormatProgress(progress, 0),
            "[############------------] 500/1000  loss 0.25  12000 examples/s  1:02 left");
  EXPECT_EQ(FormatProgress(progress, 10), "[#########");
  EXPECT_EQ(FormatProgress({.global_step = 7}, 0), "step 7");
}

}  // namespace
}  // namespace tfjob
