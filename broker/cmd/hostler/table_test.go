package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/hostler/hostler/broker/cmd/hostler/render"
)

// A terminal of any width shows what holds a node or a run back, and why, and the ids that commands
// take, whole.
func TestNoTableLeavesOutABrake(t *testing.T) {
	brake := regexp.MustCompile(`render\.(Main|More|Aside)\("(STATUS|STATE|TURNOVER|STANDING|STOPPED|TROUBLE|CLASS|CODE|VERDICT|RESULT|SEVERITY|REASON|BECAUSE|WHY|MESSAGE|DETAIL|PROBLEM|NEXT|REFUSES WITH|GOOD UNTIL|MEMBERS|TOKEN)"\)`)
	id := regexp.MustCompile(`render\.(Keep|Main|More|Aside)\("(ID|RUN)"\)`)
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) < 50 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	for _, name := range files {
		source, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range brake.FindAll(source, -1) {
			t.Errorf("%s: %s can be left out", name, found)
		}
		for _, found := range id.FindAll(source, -1) {
			t.Errorf("%s: %s can be left out or broken over lines", name, found)
		}
	}
}

// With -o wide a table above a question has all columns, too.
func TestTheTableOfAQuestionObeysTheOutput(t *testing.T) {
	for output, columns := range map[string]string{"table": "HOSTNAME", "wide": "HOSTNAME  MODEL"} {
		a := &app{processEnv: nowhere(&bytes.Buffer{}, &bytes.Buffer{}), output: output}
		a.live, a.width = true, func() int { return 12 }
		page := a.newQuestion()
		page.Table([]render.Column{render.Keep("HOSTNAME"), render.More("MODEL")}, [][]string{{"gpu-07", "HGX"}})
		var out bytes.Buffer
		_, _ = page.WriteTo(&out)
		if head, _, _ := strings.Cut(out.String(), "\n"); head != columns {
			t.Errorf("-o %s: %q, want %q", output, head, columns)
		}
	}
}
