"""Settings of links and sign-in."""

from __future__ import annotations

from mangrove.configuration.setting import (
    Flag,
    SettingCategory,
    SettingGroup,
    char_mapping,
    choice,
    line,
    names,
    number,
    patterns,
    switch,
    text,
)
from mangrove.records.audit import MAX_AUDIT_DAYS

PUBLIC, PRIVATE = Flag.PUBLIC, Flag.PRIVATE
MAX_LINK_HOURS = 876_000  # 100 years
MIN_TOKEN_LENGTH = 32  # characters; a shorter token that is stored already stays valid
MAX_PERMISSION = 0xFFFF  # of a new account
MAX_PASSWORD_MINIMUM = 64  # the largest minimum length of passwords that can be set, in characters
PRIVACY = (
    r"(?:(?:\d|[1-9]\d|1\d\d|2[0-4]\d|25[0-5])\.){3}(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]\d|\d)"
    "\n"
    r"(?:[\da-fA-F]{1,4}:){2,7}[\da-fA-F]{1,4}|::(?:[\da-fA-F]{1,4}:){0,6}[\da-fA-F]{1,4}"
    "\n"
    r"(?U)access_token=(.*)&"
)
SHARE_TEXT = (
    "{{creator}} shares {{#each files}}{{this}} {{/each}}: {{base_url}}/@s/{{id}}"
    "{{#if pwd}} password: {{pwd}}{{/if}}{{#if expires}} until {{expires}}{{/if}}"
)


def _check_group_mapping(value: str) -> None:
    for row in filter(None, map(str.strip, value.splitlines())):
        key, _, name = row.rpartition("=")
        if not key.strip() or not name.strip():
            raise ValueError(f'"{row[:40]}" is not like value = group')


def _check_filter(value: str) -> None:
    if value and "%s" not in value:
        raise ValueError("the filter has no %s for the name")


def _check_platform(value: str) -> None:
    if value in ("Casdoor", "Dingtalk"):
        raise ValueError(f"this version does not sign in with {value}: choose OIDC if it speaks OpenID Connect")


def _check_token(value: str) -> None:
    if value and len(value) < MIN_TOKEN_LENGTH:
        raise ValueError(f"a token needs at least {MIN_TOKEN_LENGTH} characters: a shorter one can be guessed")


class Global(SettingGroup):
    """Links, names, passwords and sharing."""

    group = SettingCategory.GLOBAL

    hide_files = text(
        "/\\/README.md/i",
        PUBLIC,
        "Patterns (RE2) of paths that the page does not show, one per line. To hide them from the API too, use a rule.",
        zh="隐藏文件",
    )
    package_download = switch(True, PUBLIC, "Offer to download several files together.", zh="允许打包下载")
    customize_head = text(
        "",
        PRIVATE,
        "HTML at the end of the page's head. Scripts in it run for every visitor.",
        zh="自定义页面头部",
    )
    customize_body = text(
        "",
        PRIVATE,
        "HTML at the end of the page's body. Scripts in it run for every visitor.",
        zh="自定义页面内容",
    )
    link_expiration = number(
        0,
        PRIVATE,
        "Hours after which a link expires; 0 means never.",
        minimum=0,
        maximum=MAX_LINK_HOURS,
        zh="链接有效期（小时）",
    )
    sign_all = switch(
        True, PRIVATE, "Sign the links to all files. A link without a valid signature is refused.", zh="签名所有链接"
    )
    link_follows_user = switch(
        True, PRIVATE, "A link stops working when its user can no longer read the file.", zh="链接随用户权限失效"
    )
    privacy_regs = patterns(
        PRIVACY,
        PRIVATE,
        "Patterns (RE2), one per line. Their matches in error messages are replaced by asterisks.",
        zh="隐私过滤正则",
    )
    ocr_api = line(
        "",
        PUBLIC,
        "URL of a service that reads verification codes in images, for compatible front ends.",
        zh="文字识别接口",
    )
    filename_char_mapping = char_mapping(
        '{"/": "|"}',
        PUBLIC,
        "Characters to replace in file names, as a JSON object: the original text and its replacement.",
        zh="文件名字符替换",
    )
    forward_direct_link_params = switch(
        False, PUBLIC, "Pass the query parameters of a link on to the storage.", zh="转发直链参数"
    )
    ignore_direct_link_params = names(
        "sign,mangrove_ts,openlist_ts,raw",
        PUBLIC,
        "Query parameters that are never passed on, separated by commas.",
        zh="忽略的直链参数",
    )
    webauthn_login_enabled = switch(False, PUBLIC, "Allow sign-in with a passkey.", zh="启用 WebAuthn 登录")
    share_preview = switch(
        False, PUBLIC, "Visitors of share links see previews and thumbnails, not only downloads.", zh="分享预览"
    )
    share_archive_preview = switch(
        False, PUBLIC, "Visitors of share links look into shared archives.", zh="分享中预览压缩包"
    )
    share_force_proxy = switch(
        True,
        PRIVATE,
        "Bytes of shared files always pass through this service. Otherwise storages that can serve them themselves do.",
        zh="分享强制代理",
    )
    share_summary_content = text(SHARE_TEXT, PUBLIC, "The text that goes with a shared link.", zh="分享说明模板")
    handle_hook_after_writing = switch(
        False,
        PRIVATE,
        "Add written files to the search index. auto_update_index has the same effect.",
        zh="写入后更新索引",
    )
    handle_hook_rate_limit = number(0, PRIVATE, "Accepted for compatibility; has no effect.", zh="更新索引速率限制")
    ignore_system_files = switch(
        False,
        PRIVATE,
        "Refuse uploads of .DS_Store, desktop.ini, Thumbs.db, @eaDir and names that start with “._”.",
        zh="拒绝系统文件",
    )
    min_password_length = number(
        0,
        PUBLIC,
        "Minimum length of a new password, in characters; 0 means no minimum.",
        minimum=0,
        maximum=MAX_PASSWORD_MINIMUM,
        zh="密码最短长度",
    )
    audit_days = number(
        90,
        PRIVATE,
        "Days for which sign-ins and changes by administrators are kept in the audit; 0 records none.",
        minimum=0,
        maximum=MAX_AUDIT_DAYS,
        zh="审计保留天数",
    )
    token = line(
        "",
        PRIVATE,
        "The permanent token. Programs that send it act as the administrator.",
        check=_check_token,
        zh="令牌",
        group=SettingCategory.SINGLE,
    )
    metrics_enabled = switch(
        False,
        PRIVATE,
        "Answer /metrics for Prometheus: programs of this computer, or with a token every program that sends it.",
        zh="启用监控指标",
    )
    metrics_token = line(
        "",
        PRIVATE,
        "The token that a program sends as `Authorization: Bearer …` to read /metrics. Without it, only programs of "
        "this computer may.",
        check=_check_token,
        zh="监控指标令牌",
    )
    link_salt = line(
        "",
        PRIVATE,
        "Renewed together with the token; existing links then stop working.",
        zh="链接盐值",
        group=SettingCategory.SINGLE,
    )


class Sso(SettingGroup):
    """Single sign-on, at an identity provider."""

    group = SettingCategory.SSO

    sso_login_enabled = switch(False, PUBLIC, "Allow sign-in at an identity provider.", zh="启用单点登录")
    sso_login_platform = choice(
        "",
        "Casdoor,Github,Microsoft,Google,Dingtalk,OIDC",
        PUBLIC,
        "The kind of identity provider. Casdoor and Dingtalk are not supported.",
        check=_check_platform,
        zh="单点登录平台",
    )
    sso_client_id = line("", PRIVATE, "The client id of this site at the provider.", zh="单点登录客户端 ID")
    sso_client_secret = line("", PRIVATE, "The client secret of this site at the provider.", zh="单点登录客户端密钥")
    sso_oidc_username_key = line("name", PRIVATE, "The claim with the name of a new account.", zh="OIDC 用户名字段")
    sso_organization_name = line("", PRIVATE, "The id of the tenant, for Microsoft.", zh="单点登录组织名称")
    sso_application_name = line("", PRIVATE, "Saved and without effect.", zh="单点登录应用名称")
    sso_endpoint_name = line(
        "", PRIVATE, "The issuer of the provider, for OIDC; the address of a GitHub server.", zh="单点登录端点"
    )
    sso_jwt_public_key = line(
        "", PRIVATE, "Saved and without effect: the keys of the provider are read from it.", zh="单点登录 JWT 公钥"
    )
    sso_extra_scopes = line(
        "", PRIVATE, "More scopes to request from the provider, separated by spaces.", zh="单点登录附加范围"
    )
    sso_auto_register = switch(
        False, PRIVATE, "Create an account for an identity that is linked to none.", zh="单点登录自动注册"
    )
    sso_default_dir = line("/", PRIVATE, "The base path of such an account.", zh="单点登录默认目录")
    sso_default_permission = number(
        0,
        PRIVATE,
        "The permission of such an account, as a number.",
        minimum=0,
        maximum=MAX_PERMISSION,
        zh="单点登录默认权限",
    )
    sso_group_claim = line(
        "", PRIVATE, "The claim that lists the groups of a user; empty for none.", zh="单点登录组声明"
    )
    sso_group_mapping = text(
        "",
        PRIVATE,
        "Lines `value = group`: a user whose claim has the value is a member of the group, and nobody else is.",
        check=_check_group_mapping,
        zh="单点登录组映射",
    )
    sso_admin_claim = line(
        "",
        PRIVATE,
        "The claim that makes a user an administrator until the next sign-in; empty for none.",
        zh="单点登录管理员声明",
    )
    sso_admin_value = line(
        "", PRIVATE, "The value that this claim has, or lists, for administrators.", zh="单点登录管理员声明值"
    )
    sso_compatibility_mode = switch(
        False, PUBLIC, "Redirect to the front end after a sign-in instead of closing a window.", zh="单点登录兼容模式"
    )


class Ldap(SettingGroup):
    """Sign-in with a name and password of a directory."""

    group = SettingCategory.LDAP

    ldap_login_enabled = switch(
        False, PUBLIC, "Allow sign-in with a name and password of a directory.", zh="启用 LDAP 登录"
    )
    ldap_server = line("", PRIVATE, "The address of the directory, as ldaps://ldap.example.org.", zh="LDAP 服务器")
    ldap_skip_tls_verify = switch(
        False, PRIVATE, "Do not verify the certificate of the directory.", zh="LDAP 跳过 TLS 验证"
    )
    ldap_manager_dn = line(
        "", PRIVATE, "The distinguished name that searches for users; empty for nobody.", zh="LDAP 管理员 DN"
    )
    ldap_manager_password = line("", PRIVATE, "The password of that name.", zh="LDAP 管理员密码")
    ldap_user_search_base = line("", PRIVATE, "The entry below which users are searched.", zh="LDAP 用户搜索基准")
    ldap_user_search_filter = line(
        "(uid=%s)",
        PRIVATE,
        "The filter that finds a user; %s stands for the name.",
        check=_check_filter,
        zh="LDAP 用户搜索过滤器",
    )
    ldap_default_dir = line("/", PRIVATE, "The base path of a new account.", zh="LDAP 默认目录")
    ldap_default_permission = number(
        0,
        PRIVATE,
        "The permission of a new account, as a number.",
        minimum=0,
        maximum=MAX_PERMISSION,
        zh="LDAP 默认权限",
    )
    ldap_login_tips = line("login with ldap", PUBLIC, "The text beside the form of this sign-in.", zh="LDAP 登录提示")
