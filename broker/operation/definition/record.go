package definition

import (
	"fmt"
	"io/fs"
	"sync"

	"github.com/hostler/hostler/broker"
	profiles "github.com/hostler/hostler/resolver-profiles"
	"github.com/hostler/hostler/taskcatalog/operations"
)

// Record is the definition as the broker keeps it, without a status.
func (d *Definition) Record() (broker.OperationDefinition, error) {
	raw, err := d.Encode()
	return broker.OperationDefinition{
		Operation: d.Operation, Version: d.Version, Summary: d.Summary, Digest: d.Digest(), Content: raw,
	}, err
}

// Shipped returns the definitions that come with the broker, by their ids.
func Shipped() ([]broker.OperationDefinition, error) { return readShipped() }

var readShipped = sync.OnceValues(func() (all []broker.OperationDefinition, err error) {
	names, err := fs.Glob(operations.Files, "*.yaml")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		text, err := operations.Files.ReadFile(name)
		if err != nil {
			return nil, err
		}
		d, problems := Parse(profiles.File{Name: name, Text: text})
		if len(problems) > 0 {
			return nil, fmt.Errorf("cannot read a definition that comes with the broker: %w", problems)
		}
		r, err := d.Record()
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, nil
})
