package fakeserver_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/aurorabot-dev/platform/mcpkit/fakeserver"
)

func TestMain(m *testing.M) {
	fakeserver.RunIfAsked()
	os.Exit(m.Run())
}

func command(t *testing.T, mode string, options ...string) *exec.Cmd {
	t.Helper()
	argv, env := fakeserver.Command(mode, options...)
	cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), env...)
	return cmd
}

func TestAPlainServerGreetsListsAndEchoes(t *testing.T) {
	for _, mode := range []string{"echo", "fast-echo", "modern"} {
		cmd := command(t, mode)
		cmd.Stdin = strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}
{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"echo","arguments":{"message":"hello"},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}
`)
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(mode, err)
		}
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		if len(lines) != 3 {
			t.Fatalf("%s answered %q", mode, lines)
		}
		for i, want := range []string{`"protocolVersion":"2025-06-18"`, `"name":"echo"`, `"text":"hello"`} {
			if !strings.Contains(lines[i], want) {
				t.Errorf("%s: answer %d is %s", mode, i+1, lines[i])
			}
		}
	}
}

func TestAnUnknownModeIsAnErrorThatNamesTheOthers(t *testing.T) {
	cmd := command(t, "no-such-mode")
	var said bytes.Buffer
	cmd.Stderr = &said
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != 64 || !strings.Contains(said.String(), "crash-third") {
		t.Errorf("%v: %s", err, said.String())
	}
}

func TestEveryModeSaysWhatItDoes(t *testing.T) {
	modes := fakeserver.Modes()
	for mode, does := range modes {
		if does == "" {
			t.Errorf("%s does not", mode)
		}
	}
	for _, mode := range strings.Fields(`crash-start mute slow-init crash-third exit-after immortal grandchild
		grandchild-session discover-crash discover-mute old-version banner noise stderr-flood huge invalid-utf8
		wrong-id twice hang-call late-call list-error cyclic-cursor endless-pages dup-names bad-names null-schema
		deep-schema rug-pull list-storm log-storm uninvited aurora-valid aurora-malformed aurora-huge aurora-burst
		aurora-dup poison`) {
		if modes[mode] == "" {
			t.Errorf("there is no mode %s", mode)
		}
	}
}

func TestThePoisonIsAsItShouldBe(t *testing.T) {
	for tool, want := range map[string][]string{
		"ansi":      {"\x1b]52;", "\x1b]8;;", "\x1b[2J", "\u009b"},
		"injection": {"</tool_result>", "SYSTEM:", "<|im_start|>"},
		"secrets":   {"AKIA", "ghp_", "sk-ant-", "PRIVATE KEY", "Bearer eyJ"},
		"unicode":   {"\u202e", "\u200b", "\U000E0041"},
	} {
		cmd := command(t, "poison")
		cmd.Stdin = strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + tool + `"}}` + "\n")
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		var r struct {
			Result struct{ Content []struct{ Text string } }
		}
		if err := json.Unmarshal(out, &r); err != nil || len(r.Result.Content) != 1 {
			t.Fatalf("%s: %v", out, err)
		}
		for _, piece := range want {
			if !strings.Contains(r.Result.Content[0].Text, piece) {
				t.Errorf("%s lacks %q", tool, piece)
			}
		}
	}
}

func TestABurstIsNumberedWithoutGaps(t *testing.T) {
	cmd := command(t, "aurora-burst", "total=500", "rate=50000")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	io.WriteString(in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n")
	var got []int
	for lines := bufio.NewScanner(out); len(got) < 500 && lines.Scan(); {
		var m struct {
			Params struct{ Data struct{ N int } }
		}
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			t.Fatal(err)
		}
		got = append(got, m.Params.Data.N)
	}
	in.Close()
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if len(got) != 500 || !slices.IsSorted(got) || got[499] != 499 {
		t.Errorf("%d events, the last is %d", len(got), got[len(got)-1])
	}
}
