package taskcatalog

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"time"
)

// Class says what a task may do to a node. The class determines the start window of the task and
// the local `allow` setting that admits the task.
type Class string

// The classes, from harmless to not.
const (
	ClassProbe       Class = "probe"       // reads only
	ClassMutating    Class = "mutating"    // changes the node, destroys nothing of a tenant's
	ClassDestructive Class = "destructive" // may destroy a tenant's data
)

// StartWindow is the time between signing and the latest start of a task of this class: the task's
// not_after is issued_at plus the start window.
func (c Class) StartWindow() time.Duration {
	switch c {
	case ClassProbe:
		return 10 * time.Minute
	case ClassMutating:
		return time.Hour
	default:
		return 15 * time.Minute
	}
}

// Lane says what may run beside a task on one node.
type Lane string

// The lanes of a node. The exclusive lane runs one task at a time.
const (
	LaneExclusive  Lane = "exclusive"
	LaneConcurrent Lane = "concurrent"
)

// ClockSkew is the tolerated difference between a node's clock and the broker's, in either
// direction. A greater difference counts as a violation of the task's validity.
const ClockSkew = 120 * time.Second

// Type is one row of the catalog.
type Type struct {
	Name         string
	Version      int
	Summary      string // one line, for people
	Class        Class
	Lane         Lane
	Deadline     time.Duration // from start on the node to its result, at most
	Capabilities []string      // all must be reported by the node
	// BrokerFills names the params that the broker fills in when it enqueues the task. An operator
	// who sends one of these params is refused.
	BrokerFills []string
	// ByBroker names the command that leads to this task. Only the broker enqueues such a task, as
	// part of a larger operation; an operator who enqueues the task directly is refused. Empty:
	// operators may enqueue the task.
	ByBroker string
	// Example is a set of params an operator could send.
	Example string

	params, result reflect.Type
	// limit returns the time that a task with these params may take; nil: the Deadline.
	limit func(params any) time.Duration
}

// catalog is the index of the package: one line a type.
var catalog = []Type{
	nodeHeartbeatCheck,
	nodeStorageCleanup,
	nodeValidateClean,
	nodeDrain,
	nodeUninstall,
	nodeTrustUpdate,
	nodeRotateIdentity,
	nodeResolverConfig,
	nodeGPUScrub,
	nodeDiskErase,
	nodeHWSyncReseed,
	nodeSelfUpdate,
	nodeDiagnostics,
	nodeTaskProbe,
	nodeTaskList,
	operationRun,
	allocationProvisionUser,
	allocationRevokeUser,
	allocationCheckLogin,
	terminalOpen,
	terminalClose,
}

// define completes a row with the Go types of its params P and result R.
func define[P, R any](t Type) Type {
	t.params, t.result = reflect.TypeFor[P](), reflect.TypeFor[R]()
	return t
}

// ID is the name and version as they are written everywhere: node.drain@1.
func (t Type) ID() string { return fmt.Sprintf("%s@%d", t.Name, t.Version) }

// Limit is how long a task with these decoded params may take on the node: what there
// is to do, and never more than the Deadline.
func (t Type) Limit(params any) time.Duration {
	if t.limit == nil {
		return t.Deadline
	}
	return min(t.limit(params), t.Deadline)
}

// All returns every type in the order of the table.
func All() []Type { return slices.Clone(catalog) }

// IDs returns name@version of every type, as a node reports them.
func IDs() []string {
	ids := make([]string, len(catalog))
	for i, t := range catalog {
		ids[i] = t.ID()
	}
	return ids
}

// Lookup finds a type by name and version. It fails with unknown_type, or
// with unknown_version where the name exists.
func Lookup(name string, version int) (Type, error) {
	known := false
	for _, t := range catalog {
		if t.Name == name {
			if t.Version == version {
				return t, nil
			}
			known = true
		}
	}
	if known {
		return Type{}, Errorf(CodeUnknownVersion, "task type %s has no version %d here (see hostler task types)", Clean(name, 64), version)
	}
	return Type{}, Errorf(CodeUnknownType, "task type %q is not in the catalog (see hostler task types)", Clean(name, 64))
}

// Latest finds the newest version of a type by name.
func Latest(name string) (Type, error) {
	best := Type{}
	for _, t := range catalog {
		if t.Name == name && t.Version > best.Version {
			best = t
		}
	}
	if best.Name == "" {
		return Type{}, Errorf(CodeUnknownType, "task type %q is not in the catalog (see hostler task types)", Clean(name, 64))
	}
	return best, nil
}

// DecodeParams checks raw against the type's JSON Schema and decodes it
// strictly. The returned value is a pointer to the type's params struct. Any
// fault is bad_params.
func (t Type) DecodeParams(raw json.RawMessage) (any, error) {
	return t.decode(t.params, t.ParamsSchema(), raw)
}

// DecodeResult does for a result what DecodeParams does for params.
func (t Type) DecodeResult(raw json.RawMessage) (any, error) {
	return t.decode(t.result, t.ResultSchema(), raw)
}

func (t Type) decode(into reflect.Type, schema *Schema, raw json.RawMessage) (any, error) {
	v := reflect.New(into).Interface()
	if err := DecodeStrict(raw, v); err != nil {
		return nil, Errorf(CodeBadParams, "%s: %v", t.ID(), err)
	}
	if err := schema.Check(raw); err != nil {
		return nil, Errorf(CodeBadParams, "%s: %v", t.ID(), err)
	}
	return v, nil
}
