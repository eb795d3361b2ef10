// The process that holds a pod's namespaces open: sleeps until it is told to end. Needs nothing around it.
#include <signal.h>
#include <unistd.h>

static void End(int signal) {
  (void)signal;
  _exit(0);
}

int main(void) {
  signal(SIGTERM, End);
  signal(SIGINT, End);
  for (;;) pause();
}
