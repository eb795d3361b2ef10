// `trainer data synthesize|download|to-tfrecord`.
#pragma once

namespace trainer {

// Runs the command whose arguments begin at argv[1] (argv[0] is "data"), with messages on standard
// output and errors on standard error; returns the exit code: 0, 2 usage, 3 data, 138 a mirror that
// does not answer.
int DataMain(int argc, const char* const* argv);

}  // namespace trainer
