#pragma once

namespace trainer {

// Keeps freed megabyte buffers in the process: gRPC allocates one for each message, and giving them
// back to the kernel each time costs more than the exchange itself. Call once, at start.
void TuneMalloc();

}  // namespace trainer
