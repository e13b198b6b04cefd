"""Settings of tasks, search and offline download."""

from __future__ import annotations

from mangrove.configuration.setting import (
    Flag,
    Group,
    SettingGroup,
    choice,
    line,
    names,
    number,
    paths,
    speed,
    switch,
    text,
)
from mangrove.net.addresses import check_policy_text

PUBLIC, PRIVATE = Flag.PUBLIC, Flag.PRIVATE
MAX_SMALL_FILES = 32  # that one transfer has under way
MIB = 1 << 20
ENGINES = "database,database_non_full_text,bleve,meilisearch,none"  # of the search, as clients know them
NO_INDEX = '{"obj_count":0,"is_done":true,"last_done_time":null,"error":""}'


def _check_engine(value: str) -> None:
    if value not in ENGINES.split(","):
        raise ValueError(f"not support index: {value[:40]}")


class Index(SettingGroup):
    """The search."""

    group = Group.INDEX

    search_index = choice(
        "none",
        ENGINES,
        PUBLIC,
        "Whether names are searched: any but none switches the one index on.",
        check=_check_engine,
        zh="搜索索引",
    )
    auto_update_index = switch(False, PUBLIC, "Keep the index up to date with what changes.", zh="自动更新索引")
    ignore_paths = paths("", PRIVATE, "One path per line.", zh="忽略的路径")
    max_index_depth = number(20, PRIVATE, "Max depth of index.", minimum=0, zh="索引最大层数")
    index_progress = text(NO_INDEX, PRIVATE, "How far the building of the index is.", zh="索引进度", group=Group.SINGLE)


class Traffic(SettingGroup):
    """Tasks, archives, speed and uploads."""

    group = Group.TRAFFIC

    offline_download_task_threads_num = number(
        5, PRIVATE, "How many downloads are under way at once.", zh="离线下载任务线程数"
    )
    offline_download_transfer_task_threads_num = number(
        5, PRIVATE, "How many downloaded files are stored at once.", zh="离线下载转存任务线程数"
    )
    upload_task_threads_num = number(
        5, PRIVATE, "How many uploads are stored in the background at once.", zh="上传任务线程数"
    )
    copy_task_threads_num = number(5, PRIVATE, "How many copies are under way at once.", zh="复制任务线程数")
    move_task_threads_num = number(5, PRIVATE, "How many moves are under way at once.", zh="移动任务线程数")
    decompress_download_task_threads_num = number(
        5, PRIVATE, "How many archives are unpacked at once.", zh="解压下载任务线程数"
    )
    decompress_upload_task_threads_num = number(
        5, PRIVATE, "How many unpacked archives are stored at once.", zh="解压上传任务线程数"
    )
    small_file_threads_num = number(
        16,
        PRIVATE,
        "Small files that a copy or move has under way at once, each on a connection of its own: 1 to 32.",
        minimum=1,
        maximum=MAX_SMALL_FILES,
        zh="同时传输的小文件数",
    )
    archive_max_members = number(
        100000, PRIVATE, "Entries that an archive may have; 0 is no bound.", minimum=0, zh="压缩包最多条目数"
    )
    archive_max_size = number(
        102400,
        PRIVATE,
        "MiB that an archive may unpack to, in all; 0 is no bound.",
        minimum=0,
        unit=MIB,
        zh="解压后最大大小",
    )
    archive_max_ratio = number(
        1000,
        PRIVATE,
        "Times its packed size to which an archive, or a file in it, may unpack; 0 is no bound.",
        minimum=0,
        zh="最大压缩比",
    )
    durability = choice(
        "file",
        "process,file",
        PRIVATE,
        "What a stored file survives once that is said: the end of the process, or a power cut.",
        zh="写入保障",
    )
    verify_moves = switch(
        True,
        PRIVATE,
        "Read a moved file once more at its target before the source is removed, where no checksum proves it.",
        zh="移动后校验",
    )
    task_retention_days = number(7, PRIVATE, "Days for which finished tasks are kept.", zh="任务保留天数")
    max_client_download_speed = speed(
        PRIVATE, "KiB a second to all clients together; below 0 is no limit.", zh="客户端最大下载速度"
    )
    max_client_upload_speed = speed(
        PRIVATE, "KiB a second from all clients together; below 0 is no limit.", zh="客户端最大上传速度"
    )
    max_server_download_speed = speed(
        PRIVATE, "KiB a second from all storages together; below 0 is no limit.", zh="服务端最大下载速度"
    )
    max_server_upload_speed = speed(
        PRIVATE, "KiB a second to all storages together; below 0 is no limit.", zh="服务端最大上传速度"
    )
    multipart_enabled = switch(True, PUBLIC, "Whether files can be uploaded in parts.", zh="启用分片上传")
    multipart_chunk_size = number(
        10,
        PUBLIC,
        "Size in MB of one part of an upload in parts.",
        minimum=1,
        unit=MIB,
        refusal="multipart chunk size must be a positive integer (MB)",
        zh="分片大小（MB）",
    )


class Offline(SettingGroup):
    """Offline download and its tools."""

    group = Group.OFFLINE

    aria2_secret = line("", PRIVATE, "The secret of aria2's interface; empty for none.", zh="aria2 密钥")
    aria2_http = switch(
        False,
        PRIVATE,
        "Give addresses of http and https to aria2 where it is chosen; else this service fetches them itself.",
        zh="由 aria2 下载网页地址",
    )
    aria2_uri = line("http://localhost:6800/jsonrpc", PRIVATE, "The address of aria2's interface.", zh="aria2 地址")
    offline_download_max_size = number(
        102400, PRIVATE, "MiB that a download of one address may have; 0 is no bound.", unit=MIB, zh="离线下载最大大小"
    )
    offline_download_allowed_hosts = text(
        "",
        PRIVATE,
        "Host names, addresses and networks outside the public internet that offline downloads may reach; "
        "separated by commas or lines.",
        check=check_policy_text,
        zh="离线下载允许访问的主机",
    )
    offline_download_ready = names(
        "", PRIVATE, "Download tools that answered when set up.", zh="可用的下载工具", group=Group.SINGLE
    )
    qbittorrent_seedtime = number(
        0, PRIVATE, "Minutes for which a loaded torrent is still offered; below 0 for ever.", zh="qBittorrent 做种时间"
    )
    qbittorrent_url = line(
        "http://localhost:8080/",
        PRIVATE,
        "The address of qBittorrent, with its user and password.",
        zh="qBittorrent 地址",
    )
    transmission_seedtime = number(
        0,
        PRIVATE,
        "Minutes for which a loaded torrent is still offered.",
        absent="Transmission",
        zh="Transmission 做种时间",
    )
    transmission_uri = line(
        "http://localhost:9091/transmission/rpc",
        PRIVATE,
        "The address of Transmission's interface.",
        absent="Transmission",
        zh="Transmission 地址",
    )
