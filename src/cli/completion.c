/* completion: prints scripts for three shells from the table of commands. */
#include "cli/cli.h"

/* Prints every option of a command as a shell word. */
static void print_words(const struct command *c) {
    for (size_t i = 0; i <= COUNT_OF(c->opts); i++)
        for (const struct opt *o = i < COUNT_OF(c->opts) ? c->opts[i] : common_opts; o && o->name;
             o++)
            printf(" --%s", o->name);
}

/* Prints the second words of all commands that start with the word `first` of n bytes, each once
 * and in the table's order. If n is 0, prints the first words of all commands. */
static void print_next(const char *first, int n) {
    const char *last = "";
    for (size_t i = 0; i < n_commands; i++) {
        const char *space = strchr(commands[i].name, ' ');
        if (n == 0) {
            int length = (int)(space ? space - commands[i].name : (long)strlen(commands[i].name));
            if (strncmp(last, commands[i].name, (size_t)length + (space != NULL)) != 0)
                printf(" %.*s", length, commands[i].name);
            last = commands[i].name;
        } else if (space && space - commands[i].name == n &&
                   strncmp(commands[i].name, first, (size_t)n) == 0) {
            printf("%s", space);
        }
    }
}

/* For bash and zsh: a function that prints the words for a position, in syntax that both
 * understand. */
static void print_function(void) {
    printf("_berm_words() { # PLACE FIRST SECOND\n"
           "    local list=\n"
           "    case \"$2 $3\" in\n");
    for (int two_words = 1; two_words >= 0; two_words--) /* more specific patterns first */
        for (size_t i = 0; i < n_commands; i++)
            if ((strchr(commands[i].name, ' ') != NULL) == two_words) {
                printf("    \"%s%s) list=\"", commands[i].name, two_words ? "\"" : " \"*");
                print_words(&commands[i]);
                printf("\" ;;\n");
            }
    printf("    esac\n    case \"$1 $2\" in\n    \"1 \"*) list=\"");
    print_next("", 0);
    printf("\" ;;\n");
    const char *last = "";
    for (size_t i = 0; i < n_commands; i++) {
        const char *space = strchr(commands[i].name, ' ');
        int n = space ? (int)(space - commands[i].name) : 0;
        if (!space || strncmp(last, commands[i].name, (size_t)n + 1) == 0)
            continue;
        last = commands[i].name;
        printf("    \"2 %.*s\") list=\"", n, last);
        print_next(last, n);
        printf("\" ;;\n");
    }
    printf("    esac\n    echo \"$list\"\n}\n");
}

static void print_bash(void) {
    print_function();
    printf(
        "_berm() {\n"
        "    local list=$(_berm_words \"$COMP_CWORD\" \"${COMP_WORDS[1]}\" \"${COMP_WORDS[2]}\")\n"
        "    COMPREPLY=($(compgen -W \"$list\" -- \"${COMP_WORDS[COMP_CWORD]}\"))\n"
        "}\n"
        "complete -o default -F _berm berm\n");
}

/* Prints a script that zsh can source, or load as the file _berm from its fpath. */
static void print_zsh(void) {
    printf("#compdef berm\n");
    print_function();
    printf("_berm() {\n"
           "    local list=$(_berm_words $((CURRENT - 1)) \"${words[2]}\" \"${words[3]}\")\n"
           "    compadd -- ${=list}\n"
           "    (( CURRENT == 2 )) || [[ $PREFIX == -* ]] || _files\n"
           "}\n"
           "if [ \"${funcstack[1]}\" = _berm ]; then\n"
           "    _berm \"$@\"\n"
           "else\n"
           "    (( $+functions[compdef] )) || { autoload -U compinit && compinit }\n"
           "    compdef _berm berm\n"
           "fi\n");
}

/* Prints text inside single quotes of fish. */
static void print_quoted(const char *text) {
    putchar('\'');
    for (; *text != '\0'; text++)
        printf(*text == '\'' || *text == '\\' ? "\\%c" : "%c", *text);
    putchar('\'');
}

static void print_fish_opts(const struct command *c, const char *when) {
    for (size_t i = 0; i <= COUNT_OF(c->opts); i++)
        for (const struct opt *o = i < COUNT_OF(c->opts) ? c->opts[i] : common_opts; o && o->name;
             o++) {
            printf("complete -c berm -n '%s' -l %s", when, o->name);
            if (o->letter)
                printf(" -s %c", o->letter);
            printf("%s -d ", o->takes ? " -r" : "");
            print_quoted(o->what);
            putchar('\n');
        }
}

static void print_fish(void) {
    for (size_t i = 0; i < n_commands; i++) {
        const struct command *c = &commands[i];
        const char *second = strchr(c->name, ' ');
        int n = second ? (int)(second - c->name) : (int)strlen(c->name);
        printf("complete -c berm -n __fish_use_subcommand -f -a %.*s -d ", n, c->name);
        print_quoted(c->what);
        putchar('\n');
        if (second) {
            printf("complete -c berm -n '__fish_seen_subcommand_from %.*s' -f -a %s -d ", n,
                   c->name, second + 1);
            print_quoted(c->what);
            putchar('\n');
        }
        char when[160];
        if (second)
            snprintf(when, sizeof when,
                     "__fish_seen_subcommand_from %.*s; and __fish_seen_subcommand_from %s", n,
                     c->name, second + 1);
        else
            snprintf(when, sizeof when,
                     "__fish_seen_subcommand_from %s; and not __fish_seen_subcommand_from daemon",
                     c->name);
        print_fish_opts(c, when);
    }
}

int cmd_completion(struct cli *cli) {
    static const struct {
        const char *name;
        void (*print)(void);
    } shells[] = {{"bash", print_bash}, {"zsh", print_zsh}, {"fish", print_fish}};
    for (size_t i = 0; i < COUNT_OF(shells); i++)
        if (strcmp(cli->args[0], shells[i].name) == 0)
            return shells[i].print(), 0;
    return opt_usage(cli, "shell: must be bash, zsh or fish, got \"%s\"", cli->args[0]);
}
