// Package clients holds bermd to grpc-go, on a Unix socket and on TCP.
package clients

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	reflection "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	berm "github.com/berm-dev/berm/clients/go"
	"github.com/berm-dev/berm/clients/go/bermv1"
)

const root = "../../.."

// testTimeout bounds every wait; only a failing test waits that long.
var testTimeout = func() time.Duration {
	if seconds, err := strconv.Atoi(os.Getenv("BERM_TEST_TIMEOUT")); err == nil {
		return time.Duration(seconds) * time.Second
	}
	return time.Minute
}()

type daemon struct {
	process *exec.Cmd
	dir     string
	tcp     string
	token   string
}

func start(dir string) (*daemon, error) {
	binary := os.Getenv("BERMD")
	if binary == "" {
		binary = "build/bin/bermd"
	}
	if !filepath.IsAbs(binary) {
		binary = filepath.Join(root, binary)
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	d := &daemon{dir: dir}
	d.process = exec.Command(binary, "--state", filepath.Join(dir, "state"), "--socket", filepath.Join(dir, "sock"),
		"--listen", "127.0.0.1:0")
	d.process.Stderr = log
	if err := d.process.Start(); err != nil {
		return nil, err
	}
	tcp := regexp.MustCompile(`msg=listening addr=(127\.0\.0\.1:\d+)`)
	for end := time.Now().Add(testTimeout); time.Now().Before(end); {
		text, _ := os.ReadFile(log.Name())
		if m := tcp.FindSubmatch(text); m != nil && bytes.Contains(text, []byte("addr=unix:")) {
			d.tcp = string(m[1])
			token, err := os.ReadFile(filepath.Join(dir, "state", "token"))
			d.token = strings.TrimSpace(string(token))
			return d, err
		}
		time.Sleep(50 * time.Millisecond)
	}
	d.process.Process.Kill()
	text, _ := os.ReadFile(log.Name())
	return nil, fmt.Errorf("bermd does not listen: %s", text)
}

func (d *daemon) stop() error {
	d.process.Process.Signal(syscall.SIGTERM)
	if err := d.process.Wait(); err != nil {
		text, _ := os.ReadFile(filepath.Join(d.dir, "log"))
		return fmt.Errorf("bermd did not end cleanly: %w: %s", err, text)
	}
	return nil
}

var shared *daemon

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "berm")
		if err == nil {
			defer os.RemoveAll(dir)
			shared, err = start(dir)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		code := m.Run()
		if err := shared.stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return code
	}())
}

// bearer sends the token without TLS, which is right on loopback only.
type bearer string

func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(b)}, nil
}
func (bearer) RequireTransportSecurity() bool { return false }

func dial(t *testing.T, target string, options ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(target, append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// onBoth runs a test over the Unix socket and over TCP.
func onBoth(t *testing.T, test func(t *testing.T, ctx context.Context, conn *grpc.ClientConn)) {
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	t.Cleanup(cancel)
	t.Run("unix", func(t *testing.T) { test(t, ctx, dial(t, "unix:"+filepath.Join(shared.dir, "sock"))) })
	t.Run("tcp", func(t *testing.T) {
		test(t, ctx, dial(t, shared.tcp, grpc.WithPerRPCCredentials(bearer(shared.token))))
	})
}

func wantCode(t *testing.T, err error, code codes.Code) {
	t.Helper()
	if status.Code(err) != code {
		t.Fatalf("got %v, want %v", err, code)
	}
}

// wantKind holds a failure to its row of the error list, on the wire: status, reason, retry.
func wantKind(t *testing.T, err error, kind *berm.Kind) *status.Status {
	t.Helper()
	s := status.Convert(err)
	for _, detail := range s.Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok {
			if info.Reason != kind.Reason || info.Metadata["retry"] != string(kind.Retry) {
				t.Fatalf("got %v, want %v", info, kind)
			}
			return s
		}
	}
	t.Fatalf("%v has no ErrorInfo", err)
	return nil
}

func TestPing(t *testing.T) {
	// covers: RPC-18
	onBoth(t, func(t *testing.T, ctx context.Context, conn *grpc.ClientConn) {
		system := bermv1.NewSystemServiceClient(conn)
		for _, size := range []int{0, 1, 16384, 65536, 1 << 20} {
			payload := make([]byte, size)
			rand.Read(payload)
			for _, options := range [][]grpc.CallOption{nil, {grpc.UseCompressor(gzip.Name)}} {
				answer, err := system.Ping(ctx, &bermv1.PingRequest{Payload: payload}, options...)
				if err != nil || !bytes.Equal(answer.Payload, payload) {
					t.Fatalf("%d bytes: %v", size, err)
				}
			}
		}
	})
}

func TestManyAtOnce(t *testing.T) {
	onBoth(t, func(t *testing.T, ctx context.Context, conn *grpc.ClientConn) {
		system := bermv1.NewSystemServiceClient(conn)
		var all sync.WaitGroup
		for i := range 64 {
			all.Go(func() {
				for j := range 50 {
					payload := bytes.Repeat([]byte{byte(i)}, j*100)
					answer, err := system.Ping(ctx, &bermv1.PingRequest{Payload: payload})
					if err != nil || !bytes.Equal(answer.Payload, payload) {
						t.Errorf("%d bytes: %v", len(payload), err)
						return
					}
				}
			})
		}
		all.Wait()
	})
}

func TestGetInfo(t *testing.T) {
	onBoth(t, func(t *testing.T, ctx context.Context, conn *grpc.ClientConn) {
		info, err := bermv1.NewSystemServiceClient(conn).GetInfo(ctx, &bermv1.GetInfoRequest{})
		if err != nil || info.Protocol != "berm.v1" || info.State != bermv1.DaemonState_DAEMON_STATE_SERVING {
			t.Fatal(info, err)
		}
	})
}

func TestDeadline(t *testing.T) {
	onBoth(t, func(t *testing.T, ctx context.Context, conn *grpc.ClientConn) {
		ctx, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
		defer cancel()
		watch, err := grpc_health_v1.NewHealthClient(conn).Watch(ctx, &grpc_health_v1.HealthCheckRequest{})
		for err == nil {
			_, err = watch.Recv()
		}
		wantCode(t, err, codes.DeadlineExceeded)
	})
}

func TestCancel(t *testing.T) {
	onBoth(t, func(t *testing.T, ctx context.Context, conn *grpc.ClientConn) {
		inner, cancel := context.WithCancel(ctx)
		watch, err := grpc_health_v1.NewHealthClient(conn).Watch(inner, &grpc_health_v1.HealthCheckRequest{})
		if err == nil {
			_, err = watch.Recv()
		}
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		_, err = watch.Recv()
		wantCode(t, err, codes.Canceled)
		if _, err := bermv1.NewSystemServiceClient(conn).Ping(ctx, &bermv1.PingRequest{}); err != nil {
			t.Fatal(err)
		}
	})
}

func TestHealth(t *testing.T) {
	onBoth(t, func(t *testing.T, ctx context.Context, conn *grpc.ClientConn) {
		health := grpc_health_v1.NewHealthClient(conn)
		answer, err := health.Check(ctx, &grpc_health_v1.HealthCheckRequest{})
		if err != nil || answer.Status != grpc_health_v1.HealthCheckResponse_SERVING {
			t.Fatal(answer, err)
		}
		_, err = health.Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: "no.such.Service"})
		wantCode(t, err, codes.NotFound)
	})
}

func TestReflectionV1(t *testing.T) {
	// covers: RPC-20
	onBoth(t, func(t *testing.T, ctx context.Context, conn *grpc.ClientConn) {
		stream, err := reflection.NewServerReflectionClient(conn).ServerReflectionInfo(ctx)
		if err != nil {
			t.Fatal(err)
		}
		ask := func(request *reflection.ServerReflectionRequest) *reflection.ServerReflectionResponse {
			t.Helper()
			if err := stream.Send(request); err != nil {
				t.Fatal(err)
			}
			answer, err := stream.Recv()
			if err != nil {
				t.Fatal(err)
			}
			return answer
		}
		var names []string
		list := ask(&reflection.ServerReflectionRequest{MessageRequest: &reflection.ServerReflectionRequest_ListServices{}})
		for _, service := range list.GetListServicesResponse().GetService() {
			names = append(names, service.Name)
		}
		if !slices.Contains(names, "berm.v1.SystemService") {
			t.Errorf("services: %v", names)
		}
		file := ask(&reflection.ServerReflectionRequest{MessageRequest: &reflection.ServerReflectionRequest_FileContainingSymbol{
			FileContainingSymbol: "berm.v1.SystemService.Ping"}})
		found := false
		for _, b := range file.GetFileDescriptorResponse().GetFileDescriptorProto() {
			var fd descriptorpb.FileDescriptorProto
			if err := proto.Unmarshal(b, &fd); err != nil {
				t.Fatal(err)
			}
			found = found || fd.GetPackage() == "berm.v1"
		}
		if !found {
			t.Error("no file of package berm.v1")
		}
		missing := ask(&reflection.ServerReflectionRequest{MessageRequest: &reflection.ServerReflectionRequest_FileContainingSymbol{
			FileContainingSymbol: "no.such.Symbol"}})
		if missing.GetErrorResponse().GetErrorCode() != int32(codes.NotFound) {
			t.Errorf("an unknown symbol: %v", missing)
		}
		if err := stream.CloseSend(); err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Recv(); err == nil || err.Error() != "EOF" {
			t.Errorf("the stream ended with %v", err)
		}
	})
}

func TestUnbuilt(t *testing.T) {
	// covers: RPC-1, ERR-1
	onBoth(t, func(t *testing.T, ctx context.Context, conn *grpc.ClientConn) {
		_, err := bermv1.NewSandboxServiceClient(conn).SnapshotSandbox(ctx, &bermv1.SnapshotSandboxRequest{})
		wantCode(t, err, codes.Unimplemented)
		wantKind(t, err, berm.ErrUnimplemented)
	})
}

func TestTooLarge(t *testing.T) {
	onBoth(t, func(t *testing.T, ctx context.Context, conn *grpc.ClientConn) {
		system := bermv1.NewSystemServiceClient(conn)
		for _, options := range [][]grpc.CallOption{nil, {grpc.UseCompressor(gzip.Name)}} {
			_, err := system.Ping(ctx, &bermv1.PingRequest{Payload: make([]byte, 8<<20)}, options...)
			wantCode(t, err, codes.ResourceExhausted)
			wantKind(t, err, berm.ErrMessageTooLarge)
		}
		if _, err := system.Ping(ctx, &bermv1.PingRequest{}); err != nil {
			t.Fatal(err)
		}
	})
}

func TestStrangers(t *testing.T) {
	// covers: AUTH-4, AUTH-7
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	call := func(options ...grpc.DialOption) error {
		_, err := bermv1.NewSystemServiceClient(dial(t, shared.tcp, options...)).Ping(ctx, &bermv1.PingRequest{})
		return err
	}
	wantKind(t, call(), berm.ErrUnauthenticated)
	wantKind(t, call(grpc.WithPerRPCCredentials(bearer("wrong"))), berm.ErrUnauthenticated)
	err := call(grpc.WithPerRPCCredentials(bearer(shared.token)), grpc.WithAuthority("evil.example.com"))
	wantCode(t, err, codes.PermissionDenied)
}

func TestMetadata(t *testing.T) {
	onBoth(t, func(t *testing.T, ctx context.Context, conn *grpc.ClientConn) {
		ctx = metadata.AppendToOutgoingContext(ctx, "x-plain", "a", "x-plain", "b", "x-any-bin", "\x00\xff\x80")
		if _, err := bermv1.NewSystemServiceClient(conn).Ping(ctx, &bermv1.PingRequest{}); err != nil {
			t.Fatal(err)
		}
	})
}

func TestDrain(t *testing.T) {
	// covers: RPC-25
	own, err := start(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	conn := dial(t, "unix:"+filepath.Join(own.dir, "sock"))
	watch, err := grpc_health_v1.NewHealthClient(conn).Watch(ctx, &grpc_health_v1.HealthCheckRequest{})
	if err == nil {
		_, err = watch.Recv()
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := own.stop(); err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = watch.Recv()
	}
	wantCode(t, err, codes.Unavailable)
}
