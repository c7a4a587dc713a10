package steps

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"syscall"
	"text/template"

	"github.com/hostler/hostler/agent/command"
	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/taskcatalog"
)

// maxRendered bounds a rendered file, in bytes.
const maxRendered = 1 << 20

// checkTemplate judges the template of a step: it names values of the step, and does nothing else.
func checkTemplate(s *taskcatalog.PlannedStep) error {
	text, _ := s.With["template"].Literal.(string)
	_, err := parseTemplate(text, func(name string) bool {
		_, given := s.With["values"].Table[name]
		return given
	})
	return err
}

// parseTemplate reads a template that only names values that are given. Such a template has no loop, no
// function and no call.
func parseTemplate(text string, given func(name string) bool) (*template.Template, error) {
	names, faults := taskcatalog.StepTemplateNames(text)
	for _, name := range names {
		if !given(name) {
			faults = append(faults, fmt.Sprintf("the template names %q, which is not among values", taskcatalog.Clean(name, 80)))
		}
	}
	if len(faults) > 0 {
		return nil, errors.New(faults[0])
	}
	return template.New("template").Option("missingkey=error").Parse(text)
}

// rendered is a file as its step wants it.
type rendered struct {
	root, name string
	content    []byte
	mode       uint32
	uid, gid   uint32
}

func (r *rendered) proof() Proof {
	sum := sha256.Sum256(r.content)
	return Proof{Output: r.root + "/" + r.name, Digest: "sha256:" + hex.EncodeToString(sum[:]), Bytes: int64(len(r.content))}
}

// render makes the content of the file, and finds its owner.
func render(s *Step) (*rendered, error) {
	values := s.Args.Table("values")
	t, err := parseTemplate(s.Args.Text("template"), func(name string) bool { _, given := values[name]; return given })
	if err != nil {
		return nil, taskcatalog.Errorf(taskcatalog.CodePlanInvalid, "%v", err)
	}
	r := &rendered{root: s.Args.Text("root"), name: s.Args.Text("name"), mode: 0o644}
	out := &bounded{most: maxRendered}
	if err := t.Execute(out, values); err != nil {
		return nil, taskcatalog.Errorf(taskcatalog.CodePlanInvalid, "cannot render the file: %v", err)
	}
	r.content = out.Bytes()
	if mode := s.Args.Text("mode"); mode != "" {
		bits, err := strconv.ParseUint(mode, 8, 12)
		if err != nil {
			return nil, taskcatalog.Errorf(taskcatalog.CodePlanInvalid, "%s is no mode", mode)
		}
		r.mode = uint32(bits)
	}
	owner := s.Args.Text("owner")
	if owner == "" || owner == "root" {
		return r, nil
	}
	users, err := s.Host.Machine.Users()
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(users, func(u machine.User) bool { return u.Name == owner })
	if i < 0 {
		return nil, taskcatalog.Errorf(command.CodeAccountUnknown, "cannot give the file to %s: the node has no such account", owner)
	}
	r.uid, r.gid = users[i].UID, users[i].GID
	return r, nil
}

// renderedFile reports whether the file is there with the content, owner and mode that the step wants.
func renderedFile(_ context.Context, s *Step) (Proof, bool, error) {
	want, err := render(s)
	if err != nil {
		return Proof{}, false, err
	}
	below, err := s.Host.Machine.Below(want.root)
	if err != nil {
		return Proof{}, false, absent(err)
	}
	defer below.Close()
	f, err := below.Open(want.name)
	if err != nil {
		return Proof{}, false, absent(err)
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return Proof{}, false, err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || st.Uid != want.uid || st.Gid != want.gid || st.Mode&0o7777 != want.mode || st.Size != int64(len(want.content)) {
		return Proof{}, false, nil
	}
	is, err := io.ReadAll(io.LimitReader(f, maxRendered+1))
	if err != nil || !bytes.Equal(is, want.content) {
		return Proof{}, false, err
	}
	proof := want.proof()
	proof.Message = "the file is there with this content, owner and mode"
	return proof, true, nil
}

func absent(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// renderFile writes the file whole, with owner and mode, or leaves what is there. It makes missing
// directories below the root, and the root.
func renderFile(_ context.Context, s *Step) (Proof, error) {
	want, err := render(s)
	if err != nil {
		return Proof{}, err
	}
	below, err := s.Host.Machine.MakeBelow(want.root)
	if err != nil {
		return Proof{}, noLink(fmt.Errorf("cannot open %s: %w", want.root, err))
	}
	defer below.Close()
	if err := below.Write(want.name, want.content, want.mode, int(want.uid), int(want.gid)); err != nil {
		return Proof{}, noLink(fmt.Errorf("cannot write %s below %s: %w", want.name, want.root, err))
	}
	return want.proof(), nil
}

// bounded is a buffer that refuses to grow beyond most bytes.
type bounded struct {
	bytes.Buffer
	most int
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.Len()+len(p) > b.most {
		return 0, fmt.Errorf("it is larger than %d bytes", b.most)
	}
	return b.Buffer.Write(p)
}
