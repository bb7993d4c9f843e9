// grpc_server SOCKET — what bermd is measured against: the same two methods on gRPC C++, callback API.
// It has neither authentication nor a log, so the comparison leans its way.
#include <grpcpp/grpcpp.h>
#include <signal.h>

#include <cstdio>
#include <string>

#include "bench.grpc.pb.h"
#include "berm/v1/berm.grpc.pb.h"

namespace {

namespace bench = berm::bench::v1;

constexpr uint32_t kMaxSize = 1 << 20;

class System final : public berm::v1::SystemService::CallbackService {
    grpc::ServerUnaryReactor *Ping(grpc::CallbackServerContext *context,
                                   const berm::v1::PingRequest *request,
                                   berm::v1::PingResponse *response) override {
        response->set_payload(request->payload());
        grpc::ServerUnaryReactor *reactor = context->DefaultReactor();
        reactor->Finish(grpc::Status::OK);
        return reactor;
    }
};

// The message is built once; each write encodes it anew, as bench-server does.
class Stream final : public grpc::ServerWriteReactor<bench::StreamResponse> {
  public:
    explicit Stream(const bench::StreamRequest &request) : left_(request.count()) {
        if (request.size() > kMaxSize) {
            Finish(grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "size is too large"));
            return;
        }
        response_.set_data(std::string(request.size(), 'b'));
        Next();
    }
    void OnWriteDone(bool ok) override {
        if (ok)
            Next();
        else
            Finish(grpc::Status::CANCELLED);
    }
    void OnDone() override {
        delete this;
    }

  private:
    void Next() {
        if (left_-- > 0)
            StartWrite(&response_);
        else
            Finish(grpc::Status::OK);
    }
    bench::StreamResponse response_;
    int64_t left_;
};

class Bench final : public bench::BenchService::CallbackService {
    grpc::ServerWriteReactor<bench::StreamResponse> *Stream(
        grpc::CallbackServerContext *, const bench::StreamRequest *request) override {
        return new ::Stream(*request);
    }
};

} // namespace

int main(int argc, char **argv) {
    if (argc != 2) {
        std::fprintf(stderr, "usage: grpc_server SOCKET\n");
        return 2;
    }
    sigset_t stop; // blocked before gRPC makes its threads, so that only sigwait sees it
    sigemptyset(&stop);
    sigaddset(&stop, SIGTERM);
    sigprocmask(SIG_BLOCK, &stop, nullptr);
    System system;
    Bench streams;
    grpc::ServerBuilder builder;
    builder.AddListeningPort(std::string("unix:") + argv[1], grpc::InsecureServerCredentials());
    builder.RegisterService(&system);
    builder.RegisterService(&streams);
    std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
    if (!server)
        return 1;
    int number;
    sigwait(&stop, &number);
    server->Shutdown();
    return 0;
}
