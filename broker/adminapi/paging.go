package adminapi

import (
	"slices"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/taskcatalog"
)

// PageInput asks for one page of a list that is bounded by nature, such as SKUs. The broker reads
// such a list as a whole. The type is exported because huma ignores embedded structs with
// unexported names.
type PageInput struct {
	Cursor string `query:"cursor" maxLength:"400"`
	Limit  int    `query:"limit" minimum:"0" maximum:"1000" doc:"0: the rest of the list"`
}

type nodePageInput struct {
	NodeInput
	PageInput
}

type sitePageInput struct {
	SiteInput
	PageInput
}

// firstOf returns the first limit items of a page that was read with a limit of one more, and the
// cursor of the next page.
func firstOf[T any](read []T, limit int, key func(T) string) (page []T, next string) {
	if len(read) <= limit {
		return read, ""
	}
	return read[:limit], key(read[limit-1])
}

// cut keeps the items of the asked page and sets next. A cursor is the key of the last item of the
// page before.
func cut[T any](in PageInput, items *[]T, next *string, key func(T) string) error {
	if in.Cursor != "" {
		at := slices.IndexFunc(*items, func(item T) bool { return key(item) == in.Cursor })
		if at < 0 {
			return broker.Errorf(broker.Invalid, "cursor_invalid",
				"cannot continue the list at %q: there is no such item any more (begin at the first page again)",
				taskcatalog.Clean(in.Cursor, 100))
		}
		*items = (*items)[at+1:]
	}
	if in.Limit > 0 && in.Limit < len(*items) {
		*items = (*items)[:in.Limit]
		*next = key((*items)[in.Limit-1])
	}
	return nil
}
