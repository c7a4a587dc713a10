package inbox

import (
	"time"

	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
)

// Inbox judges deliveries. Its fields are the inputs of a judgement, read anew for each delivery.
type Inbox struct {
	Now   func() time.Time
	Self  func() pki.NodeIdentity
	Trust func() *pki.TrustBundle
	// Known reports whether a task id was taken before. The same envelope, accepted and never
	// started, is not known, because the task may still begin; another envelope under the same id
	// is known.
	Known func(taskID, digest string) (bool, error)
	// Handles reports whether this agent has a handler for a type of the catalog.
	Handles      func(taskcatalog.Type) bool
	Allow        Allow
	Capabilities func() map[string]string
	// Allocations are the allocations with a user on this node.
	Allocations func() ([]string, error)
}

// Admitted is a task that passed every check.
type Admitted struct {
	Task   *taskcatalog.Task
	Type   taskcatalog.Type
	Params any    // a pointer to the type's params
	Digest string // of the envelope
}

// Refusal is the first failed check. Task is set if the signature, the addressee and the validity
// are in order and the id is new: the caller records such a refusal, so that the envelope is not
// admitted later.
type Refusal struct {
	Code    taskcatalog.Code
	Message string
	Task    *taskcatalog.Task
}

func (r *Refusal) Error() string { return r.Message }

// Admit runs the checks in their fixed order and returns the task, or the first refusal.
// deliveredAs is the task id from the broker's delivery. The params are not read before the
// signature is verified.
func (in *Inbox) Admit(raw []byte, deliveredAs string) (*Admitted, *Refusal) {
	env, err := pki.ParseEnvelope(raw)
	if err != nil {
		return nil, because(err, taskcatalog.CodeMalformed)
	}
	now := in.Now()
	task, err := in.Trust().VerifyTask(env, now)
	if err != nil {
		return nil, because(err, taskcatalog.CodeBadSignature)
	}
	digest := pki.Digest(raw)
	for _, check := range []func() error{
		func() error { return in.addressee(task) },
		func() error { return validity(task, now) },
		func() error { return in.replay(task, digest, deliveredAs) },
	} {
		if err := check(); err != nil {
			return nil, because(err, taskcatalog.CodeMalformed)
		}
	}
	admitted, err := in.permit(task)
	if err != nil {
		refusal := because(err, taskcatalog.CodeBadParams)
		refusal.Task = task
		return nil, refusal
	}
	admitted.Digest = digest
	return admitted, nil
}

func (in *Inbox) addressee(task *taskcatalog.Task) error {
	switch self := in.Self(); {
	case task.NodeID != self.NodeID:
		return taskcatalog.Errorf(taskcatalog.CodeWrongNode, "task %s is for node %s, not for %s", quote(task.TaskID), quote(task.NodeID),
			self.NodeID)
	case task.NodeEpoch != self.Epoch:
		return taskcatalog.Errorf(taskcatalog.CodeWrongEpoch, "task %s is for epoch %d of this node, which is at epoch %d",
			quote(task.TaskID), task.NodeEpoch, self.Epoch)
	}
	return nil
}

// Startable repeats, just before an admitted task starts, the checks whose outcome may have
// changed: the task may have waited for its lane behind a task that let a tenant in.
func (in *Inbox) Startable(task *taskcatalog.Task, typ taskcatalog.Type, params any) error {
	if err := validity(task, in.Now()); err != nil {
		return err
	}
	return in.tenant(typ, params)
}

func (in *Inbox) replay(task *taskcatalog.Task, digest, deliveredAs string) error {
	if task.TaskID != deliveredAs {
		return taskcatalog.Errorf(taskcatalog.CodeReplayed, "the envelope of task %s was delivered as task %s", quote(task.TaskID),
			quote(deliveredAs))
	}
	known, err := in.Known(task.TaskID, digest)
	if err != nil {
		return err
	}
	if known {
		return taskcatalog.Errorf(taskcatalog.CodeReplayed, "task %s was accepted before; its recorded result stands", quote(task.TaskID))
	}
	return nil
}

// permit checks the content of the task: catalog, schema, allow and capability, tenant.
func (in *Inbox) permit(task *taskcatalog.Task) (*Admitted, error) {
	typ, err := taskcatalog.Lookup(task.Type, task.Version)
	if err != nil {
		return nil, err
	}
	if !in.Handles(typ) {
		return nil, taskcatalog.Errorf(taskcatalog.CodeUnknownType, "this agent does not support %s (update the agent)", typ.ID())
	}
	params, err := typ.DecodeParams(task.Params)
	if err != nil {
		return nil, err
	}
	if !in.Allow.Permits(typ.Class) {
		return nil, taskcatalog.Errorf(taskcatalog.CodeNotAllowed,
			"the class of %s is %s, and this node allows %s (see allow: in the agent's config file)", typ.ID(), typ.Class, in.Allow)
	}
	has := in.Capabilities()
	for _, name := range needs(typ, params) {
		if v := has[name]; v == "" || v == "false" || v == "none" {
			return nil, taskcatalog.Errorf(taskcatalog.CodeCapabilityMissing,
				"%s with these params needs the capability %s, which this node does not have", typ.ID(), name)
		}
	}
	if err := in.tenant(typ, params); err != nil {
		return nil, err
	}
	return &Admitted{Task: task, Type: typ, Params: params}, nil
}

func because(err error, fallback taskcatalog.Code) *Refusal {
	return &Refusal{Code: taskcatalog.CodeOf(err, fallback), Message: taskcatalog.Clean(err.Error(), taskcatalog.MaxText)}
}

func quote(s string) string { return taskcatalog.Clean(s, 80) }

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
