package steps

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	profiles "github.com/hostler/hostler/resolver-profiles"
	"github.com/hostler/hostler/taskcatalog"
)

// CommandKind is the kind of the steps that have a command profile.
const CommandKind = "command.exec_allowlisted"

// checkCommand judges the command profile of a step as a profile of a set is judged, and the literal
// arguments by its schema.
func checkCommand(s *taskcatalog.PlannedStep) error {
	p, problems := profiles.DecodeCommand(s.Command)
	if problems != nil {
		return problems
	}
	if id, _ := s.With["command"].Literal.(string); id != p.ID {
		return fmt.Errorf("the step names another command profile than %s, which it has", p.ID)
	}
	given := s.With["args"].Table
	for i := range p.ArgSchema {
		a := &p.ArgSchema[i]
		v, ok := given[a.Name]
		switch {
		case !ok && a.Required:
			return fmt.Errorf("command profile %s needs the argument %s", p.ID, a.Name)
		case ok && v.From != "" && a.Type != profiles.ArgString:
			return fmt.Errorf("command profile %s takes %s as a %s, and an output of a step is a text", p.ID, a.Name, a.Type)
		case ok && v.From == "":
			if err := a.Fits(v.Literal); err != nil {
				return fmt.Errorf("command profile %s, argument %s: %w", p.ID, a.Name, err)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if !slices.ContainsFunc(p.ArgSchema, func(a profiles.Arg) bool { return a.Name == name }) {
			return fmt.Errorf("command profile %s takes no argument %s", p.ID, taskcatalog.Clean(name, 80))
		}
	}
	return nil
}

// runCommand runs the command profile by its argument vector. Its exit code is the proof.
func runCommand(ctx context.Context, s *Step) (Proof, error) {
	p, problems := profiles.DecodeCommand(s.Command)
	if problems != nil {
		return Proof{}, taskcatalog.Errorf(taskcatalog.CodePlanInvalid, "%s", problems.Error())
	}
	proof := Proof{Profile: p.ID}
	began := s.Host.Now()
	res, err := s.Host.Commands.Run(ctx, p, s.Args.Table("args"))
	if err != nil {
		return proof, err
	}
	proof.Message = fmt.Sprintf("%s ended with %d after %s", p.Command, res.ExitCode, s.Host.Now().Sub(began).Round(time.Millisecond))
	return proof, nil
}
