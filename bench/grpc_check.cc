// grpc_check SOCKET [stream] — asks a server for an echo or a short stream with a stock gRPC client
// and looks at every byte of the answer: h2load counts bytes and does not read them.
#include <grpcpp/grpcpp.h>

#include <cstdio>
#include <cstring>
#include <string>

#include "bench.grpc.pb.h"
#include "berm/v1/berm.grpc.pb.h"

namespace {

namespace bench = berm::bench::v1;

int Fail(const char *what, const grpc::Status &status) {
    std::fprintf(stderr, "grpc_check: %s: status %d %s\n", what, status.error_code(),
                 status.error_message().c_str());
    return 1;
}

int Echo(const std::shared_ptr<grpc::Channel> &channel) {
    auto stub = berm::v1::SystemService::NewStub(channel);
    for (size_t size : {0, 1, 205, 70000}) {
        grpc::ClientContext context;
        berm::v1::PingRequest request;
        berm::v1::PingResponse response;
        for (size_t i = 0; i < size; i++)
            request.mutable_payload()->push_back(static_cast<char>(i * 7));
        grpc::Status status = stub->Ping(&context, request, &response);
        if (!status.ok() || response.payload() != request.payload())
            return Fail("the echo is wrong", status);
    }
    return 0;
}

int Stream(const std::shared_ptr<grpc::Channel> &channel) {
    auto stub = bench::BenchService::NewStub(channel);
    grpc::ClientContext context;
    bench::StreamRequest request;
    bench::StreamResponse response;
    request.set_count(100);
    request.set_size(65536);
    const std::string expected(request.size(), 'b');
    auto reader = stub->Stream(&context, request);
    uint32_t right = 0;
    while (reader->Read(&response))
        right += response.data() == expected;
    grpc::Status status = reader->Finish();
    return status.ok() && right == request.count() ? 0 : Fail("the stream is wrong", status);
}

} // namespace

int main(int argc, char **argv) {
    if (argc < 2 || argc > 3 || (argc == 3 && std::strcmp(argv[2], "stream") != 0)) {
        std::fprintf(stderr, "usage: grpc_check SOCKET [stream]\n");
        return 2;
    }
    auto channel =
        grpc::CreateChannel(std::string("unix:") + argv[1], grpc::InsecureChannelCredentials());
    return argc == 3 ? Stream(channel) : Echo(channel);
}
