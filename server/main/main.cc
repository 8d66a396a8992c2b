// attn-server: attention as a service. See server/README.md.
#include "server/app/run_server.h"

int main(int argc, char** argv) { return attn::RunServer(argc, argv); }
