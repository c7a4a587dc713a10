package condition

import (
	"errors"
	"slices"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"

	"github.com/hostler/hostler/broker"
)

// Foresee judges a condition before some facts are known, which open names. known is false if the answer needs one of them.
// An error says, as that of Holds, that the condition fails whatever they will be. Code: those of Check.
func Foresee(c broker.OperationCondition, facts broker.OperationFacts, open []string) (yes, known bool, err error) {
	program, err := compile(c, cel.EvalOptions(cel.OptPartialEval))
	if err != nil {
		return false, true, err
	}
	values, unknown := map[string]any{}, []*cel.AttributePatternType{}
	for _, v := range variables {
		if slices.Contains(open, v.name) {
			unknown = append(unknown, cel.AttributePattern(v.name))
		} else {
			values[v.name] = v.value(facts)
		}
	}
	in, err := cel.PartialVars(values, unknown...)
	if err != nil {
		return false, true, err
	}
	out, _, err := program.Eval(in) // which the limit of its cost ends
	if err != nil {
		return false, true, errors.New("it fails, or costs too much")
	}
	yes, known = out.Value().(bool)
	if !known && !types.IsUnknown(out) {
		return false, true, errors.New("its result is neither true nor false")
	}
	return yes, known, nil
}
