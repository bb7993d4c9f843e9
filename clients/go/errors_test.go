package berm

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/berm-dev/berm/clients/go/bermv1"
)

func rows(t *testing.T) [][]string {
	text, err := os.ReadFile("../../src/base/errors.def")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile(`(?m)^ERR\((\w+), *(\d+)`).FindAllStringSubmatch(string(text), -1)
	if len(rows) == 0 {
		t.Fatal("errors.def has no rows")
	}
	return rows
}

func TestEveryFailureHasAKind(t *testing.T) {
	all := rows(t)
	for _, row := range all {
		kind := KindOf(row[1])
		if kind.Reason != row[1] || strconv.Itoa(kind.Number) != row[2] {
			t.Errorf("KindOf(%s) = %+v, want number %s", row[1], kind, row[2])
		}
	}
	if len(byReason) != len(all) {
		t.Errorf("%d kinds for %d rows", len(byReason), len(all))
	}
}

func TestErrorsIsAndAs(t *testing.T) {
	err := fmt.Errorf("outer: %w", &Error{Kind: KindOf("SANDBOX_NOT_FOUND"), Message: "no sb-1"})
	var found *Error
	if !errors.As(err, &found) || found.Message != "no sb-1" {
		t.Errorf("errors.As found %v", found)
	}
	if !errors.Is(err, ErrSandboxNotFound) || errors.Is(err, ErrGuestLost) {
		t.Error("errors.Is does not tell kinds apart")
	}
}

func TestAnUnknownReasonKeepsItsName(t *testing.T) {
	if k := KindOf("NO_SUCH_REASON"); k.Reason != "NO_SUCH_REASON" || k.Number != 0 {
		t.Errorf("KindOf = %+v", k)
	}
}

func TestServices(t *testing.T) {
	services := bermv1.File_berm_v1_berm_proto.Services()
	for _, name := range []protoreflect.Name{"SandboxService", "ExecService", "FileService", "SystemService"} {
		if services.ByName(name) == nil {
			t.Errorf("no %s", name)
		}
	}
}
