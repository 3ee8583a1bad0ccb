package server

import (
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"testing"

	"taskdaemon/internal/api"
)

// Whatever says who did something is signed: a new method of the service cannot be forgotten.
func TestSignedSignsAll(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "signed.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	signs := map[string]bool{}
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Recv != nil {
			signs[f.Name.Name] = true
		}
	}
	service := reflect.TypeFor[api.Service]()
	for i := range service.NumMethod() {
		m := service.Method(i)
		for j := range m.Type.NumIn() {
			in := m.Type.In(j)
			if in.Kind() != reflect.Struct {
				continue
			}
			if f, ok := in.FieldByName("By"); ok && f.Type.Kind() == reflect.String && f.Type.Name() == "string" && !signs[m.Name] {
				t.Errorf("%s takes who did it from the client", m.Name)
			}
		}
	}
}
