package adminapi

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/taskcatalog"
)

func (a *API) listTaskTypes(_ context.Context, in *PageInput) (*api.TaskTypeList, error) {
	out := &api.TaskTypeList{}
	for _, t := range taskcatalog.All() {
		out.Items = append(out.Items, taskTypeResource(t))
	}
	return out, cut(*in, &out.Items, &out.Next, func(t api.TaskType) string { return t.Name + "@" + strconv.Itoa(t.Version) })
}

type taskTypeInput struct {
	Type string `path:"type" maxLength:"80" doc:"a name, or name@version; default: the newest version"`
}

func (a *API) describeTaskType(_ context.Context, in *taskTypeInput) (*api.TaskType, error) {
	name, number, versioned := strings.Cut(in.Type, "@")
	t, err := taskcatalog.Latest(name)
	if versioned {
		version, convErr := strconv.Atoi(number)
		if convErr != nil {
			version = 0 // no type has version 0
		}
		t, err = taskcatalog.Lookup(name, version)
	}
	if err != nil {
		return nil, broker.Errorf(broker.NotFound, string(taskcatalog.CodeOf(err, taskcatalog.CodeUnknownType)), "%v", err)
	}
	out := taskTypeResource(t)
	out.ParamsSchema, out.ResultSchema = t.ParamsSchema().Text(), t.ResultSchema().Text()
	if slices.ContainsFunc(taskcatalog.Checks(), func(c taskcatalog.CheckRow) bool { return c.CleanedBy == t.Name }) ||
		t.Name == "node.validate_clean" {
		out.Checks = taskcatalog.Checks()
	}
	return &out, nil
}

func taskTypeResource(t taskcatalog.Type) api.TaskType {
	return api.TaskType{
		Name: t.Name, Version: t.Version, Summary: t.Summary, Class: string(t.Class), Lane: string(t.Lane),
		DeadlineSeconds: int64(t.Deadline / time.Second), StartSeconds: int64(t.Class.StartWindow() / time.Second),
		Capabilities: t.Capabilities, BrokerFills: t.BrokerFills, ByBroker: t.ByBroker, Example: json.RawMessage(t.Example),
	}
}
